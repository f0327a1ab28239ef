import { isDeepStrictEqual } from 'node:util'
import type { CompiledRule } from './compiled-rule.js'
import { conform, conformValue } from './conform.js'
import { durationAt } from './duration.js'
import { type CompiledKey, compileKey } from './identity/key.js'
import type { IdentityOptions } from './identity/part.js'
import { compileLimits, compileLock } from './limits/compile.js'
import { compileCost } from './limits/from-request.js'
import { wrongOption } from './mistakes.js'
import { List, ListItem, type Rule, RuleSchema } from './rule.js'
import { readingOf } from './rule-reading.js'

/** Without `maxHold` a lock is renewed for this many times its time to live. */
const HOLD_TIMES = 10

/** The highest number of a series for which the memory store has room. */
const MOST_SERIES = 0xffff

type Counted = Pick<CompiledRule, 'key' | 'distinct'>

/**
 * Compiles the rules of one limiter, and numbers them and their series in the store. A rule that replaces one of the
 * same name gets the same number. With the same kind of key it gets the same series, too, so it goes on with what that
 * one has counted.
 */
export class RuleCompiler {
  private readonly rules = new Numbers()
  private readonly series = new Numbers()
  /**
   * For each series, what holds the spec in force. It outlives a rule that is removed: if the rule comes back, a
   * request that began before finds the new spec.
   */
  private readonly inForce: CompiledRule['specs'][number]['inForce'][] = []

  constructor(private readonly identity: IdentityOptions) {}

  /**
   * @param at path of the rule, for errors
   * @param owner stands for the route that an inline rule belongs to, '' for a shared rule
   * @throws OptionError with the path of the mistake
   */
  compile(rule: Rule, at: string, owner: string): CompiledRule {
    conform(RuleSchema, rule, at)
    const { name, counts = 'sends', mode, limits = [], lock, cost, optional = false, allow, block } = rule
    if ((rule.limits === undefined) === (lock === undefined)) {
      throw wrongOption(at, rule, 'A rule has either "limits" or a "lock".')
    }
    if (lock !== undefined && counts !== 'sends')
      throw wrongOption(`${at}.counts`, counts, 'A lock goes with "sends".')
    const keys = this.keysOf(rule, at)
    const { key, distinct } = keys
    const fullName = name + owner
    const observed = mode === 'observe'
    // When memory is full, what these rules have counted is forgotten: no message goes that a `sends` or `failures`
    // rule would refuse.
    const base = { rule: this.rules.of(fullName), observed, forgettable: observed || counts === 'attempts' }
    const kinds = key.parts.map(({ kind }) => kind).join()
    const named = (suffix: string) => {
      const known = fullName + suffix
      // In memory an identity does not tell of which kind of key it is, so the series does.
      const series = this.series.of(`${kinds} ${known}`)
      if (series > MOST_SERIES)
        throw wrongOption(`${at}.name`, name, 'This process has counted under too many names: restart it.')
      return { ...base, name: known, series, inForce: (this.inForce[series] ??= {}) }
    }
    const structures =
      lock === undefined
        ? compileLimits(limits, `${at}.limits`, named, distinct !== undefined)
        : [compileLock(lock, `${at}.lock`, named)]
    if (cost !== undefined && structures.some(({ spec }) => spec.kind !== 'count'))
      throw wrongOption(`${at}.cost`, cost, 'It goes with limits "per" a calendar period alone.')
    return {
      options: rule,
      name,
      fullName,
      counts,
      observed,
      optional,
      lock: lock !== undefined,
      ...keys,
      ...readingOf(keys, optional),
      specs: structures.map(each => each.spec),
      max: structures.some(each => each.max.some(max => typeof max === 'function'))
        ? structures.map(each => each.max)
        : undefined,
      cost: cost === undefined ? undefined : compileCost(cost, `${at}.cost`),
      timeZones: structures.some(each => each.timeZone) ? structures.map(each => each.timeZone) : undefined,
      maxHold: maxHoldOf(rule, structures[0]?.spec.ttl ?? 0, at),
      hidden: rule.private ?? false,
      allowFunction: typeof allow === 'function' ? allow : undefined,
      allowList: typeof allow === 'function' ? undefined : compileList(key, allow, `${at}.allow`),
      blockList: compileList(key, block, `${at}.block`)
    }
  }

  /** Compiles the rule's `key` and `distinct`. */
  private keysOf({ name, key: who, distinct: what, counts, lock }: Rule, at: string): Counted {
    const key = compileKey(who, { ...this.identity, called: `the key of ${name}` }, `${at}.key`)
    const apart = { ...this.identity, called: `the distinct value of ${name}` }
    const distinct = what === undefined ? undefined : compileKey(what, apart, `${at}.distinct`)
    if (lock !== undefined && distinct !== undefined)
      throw wrongOption(`${at}.distinct`, what, 'It goes with "limits", not with a "lock".')
    if (distinct?.parts.every(({ kind }) => kind === 'all') || isDeepStrictEqual(what, who))
      throw wrongOption(`${at}.distinct`, what, 'For one key it never differs: name something that may.')
    for (const [of, compiled] of Object.entries({ key, distinct })) {
      if (counts === 'attempts' && compiled?.body !== undefined)
        throw wrongOption(
          `${at}.${of}`,
          compiled.body,
          'Attempts are counted before the body is read; use the address, headers, query or params, or count failures.'
        )
    }
    return { key, distinct }
  }
}

function maxHoldOf({ lock, maxHold }: Rule, ttl: number, at: string): number {
  if (maxHold === undefined) return ttl * HOLD_TIMES
  const ms = durationAt(maxHold, `${at}.maxHold`)
  if (lock === undefined || ms < ttl)
    throw wrongOption(`${at}.maxHold`, maxHold, 'It goes with a "lock", and is at least as long.')
  return ms
}

/** Makes a test whether a value of the key is on a list; undefined without a list. */
function compileList(
  key: CompiledKey,
  values: readonly string[] | undefined,
  at: string
): CompiledRule['blockList'] {
  if (values === undefined) return undefined
  conformValue(List, values, at)
  for (const [i, value] of values.entries()) conformValue(ListItem, value, `${at}[${i}]`)
  const [part, ...others] = key.parts
  if (part === undefined || others.length > 0)
    throw wrongOption(at, values, 'Only a key of one part can have a list.')
  return part.list(values, at)
}

/** Gives each name a number, from 0 up, and the same name the same number again. */
class Numbers {
  private readonly known = new Map<string, number>()

  of(name: string): number {
    const number = this.known.get(name) ?? this.known.size
    this.known.set(name, number)
    return number
  }
}
