import { randomBytes } from 'node:crypto'
import { type Applied, decide, join, type Verdict } from './decision.js'
import { RuleUnknownError, TimeoutError, wrongOption } from './errors.js'
import type { Source } from './identity/path.js'
import { entriesFor, isAllowed } from './per-request.js'
import { Decision, type Slot } from './reservation.js'
import type { CompiledRule } from './rules.js'
import type { Reserved, Reserver } from './store/fallback.js'
import { type Awaitable, type Entry, isPromise } from './store/store.js'
import { takenOf } from './store/taken.js'
import { within } from './within.js'

/** Values by rule: one value, or one for each part of the rule's key, then of what it tells apart (`distinct`). */
export type Keys = Record<string, unknown>

/** A rule with the identity it counts now. */
interface Subject extends Applied {
  rule: CompiledRule
  identity: string
}

/** Decides by rules, over any store; knows nothing of HTTP. */
export class Limiter {
  /** Rules by name, those of routes by name and route. */
  rules = new Map<string, CompiledRule>()

  constructor(
    private readonly reserver: Reserver,
    private readonly timeout: number,
    private readonly report: (error: unknown) => void
  ) {}

  /**
   * Decides over all rules at once.
   * @param earlier the decision of the request's first stage
   * @throws KeyMissingError, KeyInvalidError, FunctionError, TimeoutError, StoreUnavailableError, StoreFullError
   */
  decide(rules: readonly CompiledRule[], source: Source, earlier?: Decision | null): Awaitable<Decision> {
    const values = rules.map(rule => rule.read(source))
    if (!values.some(value => isPromise(value))) {
      return this.reserve(rules, values as readonly (readonly unknown[])[], source, earlier)
    }
    const late = () => new TimeoutError('a key function', this.timeout)
    return within(Promise.all(values), this.timeout, late).then(found =>
      this.reserve(rules, found, source, earlier)
    )
  }

  /** A refusal that somebody else pronounced. @param retryAfterMs null: no time can be named */
  refuse(name: string, retryAfterMs: number | null, earlier?: Decision | null): Decision {
    const refusal = retryAfterMs === null ? 'blocked' : 'exceeded'
    const violated = [{ rule: name, windowMs: 0 }]
    return this.conclude(
      [],
      { ...admittedVerdict(), allowed: false, retryAfterMs, violated, refusal },
      null,
      '',
      earlier
    )
  }

  /** Decides for values by rule, outside of a route. @throws RuleUnknownError, KeyInvalidError */
  decideFor(keys: Keys, source: Source | undefined): Awaitable<Decision> {
    const named = this.named(keys)
    return this.reserve(
      named.map(each => each.rule),
      named.map(each => each.values),
      source
    )
  }

  /** The verdict as it would be; changes nothing. */
  async peek(keys: Keys, source: Source | undefined): Promise<Verdict> {
    const named = this.named(keys)
    const { subjects, blocked } = sort(
      named.map(each => each.rule),
      named.map(each => each.values),
      source
    )
    if (blocked.some(each => !each.observed)) return blockedVerdict(blocked)
    const entries = subjects.flatMap(each => each.entries)
    const verdict =
      entries.length === 0 ? admittedVerdict() : decide(subjects, await this.reserver.store.peek(entries))
    for (const { name } of blocked) verdict.observed.push({ rule: name, windowMs: 0 })
    return verdict
  }

  /** Forgets what is counted. */
  async clear(keys: Keys): Promise<void> {
    await this.reserver.store.clear(this.entriesFor(keys))
  }

  /** Refuses the identities for `ms` milliseconds, 0: until unblocked. */
  async block(keys: Keys, ms: number): Promise<void> {
    const lock = this.named(keys).find(({ rule }) => rule.options.lock !== undefined)
    if (lock)
      throw wrongOption('keys', lock.rule.name, 'A lock blocks nobody for good; name a rule with limits.')
    await this.reserver.store.block(this.entriesFor(keys), ms)
  }

  async unblock(keys: Keys): Promise<void> {
    await this.reserver.store.unblock(this.entriesFor(keys))
  }

  private reserve(
    rules: readonly CompiledRule[],
    values: readonly (readonly unknown[])[],
    source: Source | undefined,
    earlier?: Decision | null
  ): Awaitable<Decision> {
    const { subjects, blocked } = sort(rules, values, source)
    const all = [...subjects, ...blocked]
    if (blocked.some(each => !each.observed))
      return this.conclude(all, blockedVerdict(blocked), null, '', earlier)
    const token = subjects.some(({ rule }) => rule.options.lock !== undefined)
      ? randomBytes(18).toString('base64url')
      : ''
    const finish = (reserved: Reserved | null) => {
      const verdict = reserved?.facts ? decide(subjects, reserved.facts) : admittedVerdict()
      for (const { name } of blocked) verdict.observed.push({ rule: name, windowMs: 0 })
      return this.conclude(all, verdict, reserved, token, earlier)
    }
    if (subjects.length === 0) return finish(null)
    const reserved = this.reserver.reserve(
      subjects.flatMap(each => each.entries),
      token
    )
    return isPromise(reserved) ? reserved.then(finish) : finish(reserved)
  }

  private conclude(
    subjects: readonly Subject[],
    verdict: Verdict,
    reserved: Reserved | null,
    token: string,
    earlier?: Decision | null
  ): Decision {
    const slots: Slot[] = []
    if (reserved?.facts && verdict.allowed) {
      const taken = takenOf(
        subjects.flatMap(each => each.entries),
        reserved.facts
      )
      for (const { rule } of subjects) {
        const own = taken.filter(each => each.entry.spec.rule === rule.index)
        if (own.length > 0) slots.push({ rule, taken: own })
      }
    }
    const store = reserved?.store ?? this.reserver.store
    const keys = {
      ...earlier?.keys,
      ...Object.fromEntries(subjects.map(({ name, identity }) => [name, identity]))
    }
    const by = reserved?.facts ? store.name : 'none'
    return new Decision(earlier ? join(earlier, verdict) : verdict, {
      slots,
      store,
      token,
      report: this.report,
      keys,
      by
    })
  }

  private named(keys: Keys): { rule: CompiledRule; values: readonly unknown[] }[] {
    return Object.entries(keys).map(([name, value]) => {
      const rule = this.rules.get(name)
      if (rule === undefined) throw new RuleUnknownError('keys', name, [...this.rules.keys()].join(', '))
      const parts = rule.key.parts.length + (rule.distinct?.parts.length ?? 0)
      return { rule, values: parts > 1 && Array.isArray(value) ? value : [value] }
    })
  }

  private entriesFor(keys: Keys): Entry[] {
    return this.named(keys).flatMap(({ rule, values }) => {
      const identity = rule.key.identify(values, false)
      return identity === null ? [] : rule.specs.map(spec => ({ spec, identity }))
    })
  }
}

/** Who is asked about, and who is on a block list, with nothing to ask; who is on an allow list is neither. */
function sort(
  rules: readonly CompiledRule[],
  values: readonly (readonly unknown[])[],
  source: Source | undefined
): { subjects: Subject[]; blocked: Subject[] } {
  const subjects: Subject[] = []
  const blocked: Subject[] = []
  for (const [i, rule] of rules.entries()) {
    if (isAllowed(rule, source)) continue
    const given = values[i] as readonly unknown[]
    const identity = rule.key.identify(given, rule.optional)
    if (identity === null || rule.allows?.(given[0])) continue
    const subject = { rule, name: rule.name, observed: rule.observed, identity }
    // Before its other values are looked at: who is on a list stays so whatever else is sent.
    if (rule.blocks?.(given[0])) {
      blocked.push({ ...subject, entries: [] })
      continue
    }
    const value = rule.valueOf(given)
    if (value === null) continue
    const who = { identity, ...(value !== undefined && { value }) }
    subjects.push({ ...subject, entries: entriesFor(rule, who, source) })
  }
  return { subjects, blocked }
}

function admittedVerdict(): Verdict {
  return { allowed: true, retryAfterMs: 0, violated: [], observed: [], rules: [], refusal: null }
}

function blockedVerdict(blocked: readonly Subject[]): Verdict {
  const told = (observed: boolean) =>
    blocked.filter(each => each.observed === observed).map(({ name }) => ({ rule: name, windowMs: 0 }))
  return {
    allowed: false,
    retryAfterMs: null,
    violated: told(false),
    observed: told(true),
    rules: [],
    refusal: 'blocked'
  }
}
