import { randomUUID } from 'node:crypto'
import { type Awaitable, isPromise } from './awaitable.js'
import { type Clock, instantNow } from './clock.js'
import type { CompiledRule } from './compiled-rule.js'
import { Decision } from './decision.js'
import { DecisionBasis } from './decision-basis.js'
import { RuleUnknownError, TimeoutError } from './errors.js'
import type { Afterwards } from './hold.js'
import type { Source } from './identity/path.js'
import { wrongOption } from './mistakes.js'
import { entriesOf, type Keys, namedBy } from './named.js'
import type { Receipts } from './store/receipts.js'
import type { Reserved, Reserver } from './store/reserver.js'
import type { Settling, Taken } from './store/store.js'
import { askedOf, asksStore, type Subject, subjectsOf, verdictOf } from './subjects.js'
import { admittedVerdict, type Verdict } from './verdict.js'
import { within } from './within.js'

/** Stands for the holder of locks in a decision that takes none. */
const NO_LOCK = { token: '', since: { monotonic: 0, wall: 0 } }

/** Decides by rules, over any store; knows nothing of HTTP. */
export class Limiter {
  /**
   * The plugin's rules by name, inline rules by `name@route`. Inline rules are added to this map; when the plugin's
   * rules are replaced, another map takes its place.
   */
  rules = new Map<string, CompiledRule>()

  /**
   * @param timeout how long the keys of a decision may take, in milliseconds
   * @param clock tells when a decision was made that the store does not date
   * @param report called with the error of a call that failed after its decision
   */
  constructor(
    private readonly reserver: Reserver,
    private readonly receipts: Receipts,
    private readonly timeout: number,
    private readonly clock: Pick<Clock, 'monotonic'>,
    readonly report: (error: unknown, what: Afterwards) => void
  ) {}

  /**
   * Decides over all rules at once.
   * @param earlier the decision of the request's first stage; null where there was none
   * @throws KeyMissingError, KeyInvalidError, FunctionError, TimeoutError, StoreUnavailableError, StoreFullError
   */
  decide(rules: readonly CompiledRule[], source: Source, earlier: Decision | null): Awaitable<Decision> {
    const values: unknown[] = new Array(rules.length)
    let late = false
    for (let i = 0; i < rules.length; i++) {
      values[i] = (rules[i] as CompiledRule).read(source)
      late ||= isPromise(values[i])
    }
    if (!late) return this.reserve(rules, values, source, earlier)
    const tooLate = () => {
      const waited = rules.filter((_, i) => isPromise(values[i])).map(({ name }) => name)
      return new TimeoutError(`the key of ${waited.join(' or ')}`, this.timeout)
    }
    return within(Promise.all(values), this.timeout, tooLate).then(found =>
      this.reserve(rules, found, source, earlier)
    )
  }

  /** Makes a decision of the refusal of a filter. @param retryAfterMs null when no time can be named */
  refuse(name: string, retryAfterMs: number | null, earlier: Decision | null): Decision {
    const refusal = retryAfterMs === null ? 'blocked' : 'exceeded'
    const violated = [{ rule: name, windowMs: 0 }]
    const verdict = { ...admittedVerdict(), allowed: false, retryAfterMs, violated, refusal } as const
    return this.conclude([], null, NO_LOCK, earlier, verdict)
  }

  /**
   * Decides for values by rule, outside of a route.
   * @throws as `decide`, but no TimeoutError; also OptionError, RuleUnknownError
   */
  decideFor(keys: Keys, source: Source | undefined): Awaitable<Decision> {
    const { rules, values } = namedBy(keys, this.rules)
    return this.reserve(rules, values, source, null)
  }

  /** The verdict as it would be; changes nothing. */
  async peek(keys: Keys, source: Source | undefined): Promise<Verdict> {
    const { rules, values } = namedBy(keys, this.rules)
    const subjects = subjectsOf(rules, values, source)
    const asked = asksStore(subjects)
    return verdictOf(subjects, asked ? await this.reserver.store.peek(askedOf(subjects)) : null)
  }

  /** Clears what is counted. */
  async clear(keys: Keys): Promise<void> {
    await this.reserver.store.clear(entriesOf(keys, this.rules))
  }

  /** Refuses the identities for `ms` milliseconds, 0: until unblocked. */
  async block(keys: Keys, ms: number): Promise<void> {
    const lock = namedBy(keys, this.rules).rules.find(rule => rule.lock)
    if (lock) throw wrongOption('keys', lock.name, 'A lock blocks nobody for good; name a rule with limits.')
    await this.reserver.store.block(entriesOf(keys, this.rules), ms)
  }

  async unblock(keys: Keys): Promise<void> {
    await this.reserver.store.unblock(entriesOf(keys, this.rules))
  }

  /** Makes a receipt of these slots, without those that a stand-in memory has counted: no other process finds them. */
  receiptOf(taken: readonly Taken[], store: Settling): string {
    const { name } = this.reserver.store
    const found = taken.filter(({ entry }) => (store.nameOf?.(entry.identity) ?? store.name) === name)
    return this.receipts.make(found)
  }

  checkNamed(name: string): void {
    const names = [...this.rules.values()].map(rule => rule.name)
    if (!names.includes(name)) throw new RuleUnknownError('receipt', 'rule', name, names.join(', ') || 'none')
  }

  /** Gives back what a receipt names. @throws ReceiptError */
  async refund(receipt: unknown): Promise<void> {
    const rules = [...this.rules.values()]
    // By the beginning of its name alone, since the rule may have other kinds of limits by now.
    const ruleOf = (spec: string) =>
      rules.find(({ fullName }) => `${spec}:`.startsWith(`${fullName}:`))?.specs[0]?.rule ?? -1
    const taken = this.receipts.open(receipt, ruleOf)
    await this.reserver.store.refund(taken, '')
  }

  private reserve(
    rules: readonly CompiledRule[],
    values: readonly unknown[],
    source: Source | undefined,
    earlier: Decision | null
  ): Awaitable<Decision> {
    const subjects = subjectsOf(rules, values, source)
    if (!asksStore(subjects)) return this.conclude(subjects, null, NO_LOCK, earlier)
    const locks = subjects.some(({ rule }) => rule.lock)
    const holder = locks ? { token: newToken(), since: instantNow() } : NO_LOCK
    const reserved = this.reserver.reserve(askedOf(subjects), holder.token)
    return isPromise(reserved)
      ? reserved.then(found => this.conclude(subjects, found, holder, earlier))
      : this.conclude(subjects, reserved, holder, earlier)
  }

  /** @param verdict where it does not follow from what the store answered */
  private conclude(
    subjects: readonly Subject[],
    reserved: Reserved | null,
    { token, since }: typeof NO_LOCK,
    earlier: Decision | null,
    verdict: Verdict | null = null
  ): Decision {
    const facts = reserved?.facts ?? null
    const store = reserved?.store ?? this.reserver.store
    const at = reserved?.at ?? this.clock.monotonic()
    return new Decision(new DecisionBasis(subjects, facts, at, store, token, since, this, earlier, verdict))
  }
}

/** 24 characters with 90 random bits. Node draws many UUIDs at a time, but random bytes anew for each call, in 3 µs. */
const newToken = () => randomUUID().replaceAll('-', '').slice(8)
