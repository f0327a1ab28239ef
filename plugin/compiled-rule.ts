import type { CompiledKey } from './identity/key.js'
import type { Source } from './identity/path.js'
import type { AllowFunction, MaxFunction, PrivateFunction, Rule, TimeZoneFunction } from './rule.js'
import type { Spec } from './store/store.js'

/** A rule, validated and ready to decide by. */
export interface CompiledRule {
  /** As the rule was given. */
  options: Rule
  name: string
  /** Unique to its name in this process. */
  index: number
  counts: 'sends' | 'attempts' | 'failures'
  observed: boolean
  optional: boolean
  /** Whether it is a lock, in place of limits. */
  lock: boolean
  key: CompiledKey
  /** What different values are counted of. */
  distinct: CompiledKey | undefined
  /** The value that it counts by, perhaps later; of several parts a list, those of the key first, then those of `distinct`. */
  read(source: Source): unknown
  /** Of what was read, what belongs to the key. */
  whoOf(values: unknown): unknown
  /**
   * Of what was read, the number of the value that `distinct` tells apart; undefined without `distinct`, null when the
   * rule does not apply.
   * @throws KeyMissingError, KeyInvalidError
   */
  valueOf(values: unknown): number | null | undefined
  specs: readonly Spec[]
  /** Where a `max` is a function: for each spec, the `max` of each of its limits. */
  max: readonly (readonly (number | MaxFunction)[])[] | undefined
  /** Where a time zone comes from the request: the function of each spec that has one. */
  timeZones: readonly (TimeZoneFunction | undefined)[] | undefined
  /** How long a lock is renewed, in milliseconds. */
  maxHold: number
  passes: AllowFunction | undefined
  /** Whether headers are silent about it, always or to some requests. */
  hidden: boolean | PrivateFunction
  allows: ((value: unknown) => boolean) | undefined
  blocks: ((value: unknown) => boolean) | undefined
}
