import { conform } from './conform.js'
import { wrongOption } from './errors.js'
import { type CompiledKey, compileKey, type IdentityOptions } from './identity/key.js'
import { compileLimits, compileLock, durationAt } from './limits/compile.js'
import { type MaxFunction, type Rule, RuleSchema } from './options.js'
import type { Spec } from './store/store.js'

/** Without `maxHold` a lock is renewed for this many times its time to live. */
const HOLD_TIMES = 10

/** A rule, validated and ready to decide by. */
export interface CompiledRule {
  /** As the rule was given. */
  options: Rule
  name: string
  /** Unique in this process. */
  index: number
  counts: 'sends' | 'attempts' | 'failures'
  observed: boolean
  optional: boolean
  key: CompiledKey
  specs: readonly Spec[]
  /** Where a `max` is a function: for each spec, the `max` of each of its limits. */
  max: readonly (readonly (number | MaxFunction)[])[] | undefined
  /** How long a lock is renewed, in milliseconds. */
  maxHold: number
  allows: ((value: unknown) => boolean) | undefined
  blocks: ((value: unknown) => boolean) | undefined
}

/** Compiles rules for one limiter; numbers them, and what they keep in the store. */
export class RuleCompiler {
  private rules = 0
  private slots = 0

  constructor(private readonly identity: IdentityOptions) {}

  /**
   * @param at where the rule stands, for errors
   * @param owner what an inline rule belongs to, '' for a shared one
   * @throws OptionError with the path of the mistake
   */
  compile(rule: Rule, at: string, owner: string): CompiledRule {
    conform(RuleSchema, rule, at)
    const { name, counts = 'sends', mode, limits = [], lock } = rule
    if ((rule.limits === undefined) === (lock === undefined)) {
      throw wrongOption(at, rule, 'A rule has either "limits" or a "lock".')
    }
    if (lock !== undefined && counts !== 'sends')
      throw wrongOption(`${at}.counts`, counts, 'A lock goes with "sends".')
    const key = compileKey(rule.key, this.identity, `${at}.key`)
    if (counts === 'attempts' && key.body !== undefined) {
      throw wrongOption(
        `${at}.key`,
        key.body,
        'Attempts are counted before the body is read; use the address, headers, query or params.'
      )
    }
    const index = this.rules++
    const base = { rule: index, observed: mode === 'observe', forgettable: counts === 'attempts' }
    const named = (suffix: string) => ({ ...base, name: `${name}${owner}${suffix}`, slot: this.slots++ })
    const list = (of: 'allow' | 'block') => rule[of] && compileList(key, rule[of], `${at}.${of}`)
    const structures =
      lock === undefined
        ? compileLimits(limits, `${at}.limits`, named)
        : [compileLock(lock, `${at}.lock`, named)]
    return {
      options: rule,
      name,
      index,
      counts,
      observed: base.observed,
      optional: rule.optional ?? false,
      key,
      specs: structures.map(each => each.spec),
      max: structures.some(each => each.max.some(max => typeof max === 'function'))
        ? structures.map(each => each.max)
        : undefined,
      maxHold: hold(rule, structures[0]?.spec.ttl ?? 0, at),
      allows: list('allow'),
      blocks: list('block')
    }
  }
}

function hold({ lock, maxHold }: Rule, ttl: number, at: string): number {
  if (maxHold === undefined) return ttl * HOLD_TIMES
  const ms = durationAt(maxHold, `${at}.maxHold`)
  if (lock === undefined || ms < ttl)
    throw wrongOption(`${at}.maxHold`, maxHold, 'It goes with a "lock", and is at least as long.')
  return ms
}

function compileList(key: CompiledKey, values: readonly string[], at: string): (value: unknown) => boolean {
  const [part, ...others] = key.parts
  if (part === undefined || others.length > 0)
    throw wrongOption(at, values, 'Only a key of one part can have a list.')
  return part.list(values, at)
}
