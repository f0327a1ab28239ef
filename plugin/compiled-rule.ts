import type { CompiledKey } from './identity/key.js'
import type { CompiledPart } from './identity/part.js'
import type { Source } from './identity/path.js'
import type {
  AllowFunction,
  CostFunction,
  MaxFunction,
  PrivateFunction,
  Rule,
  TimeZoneFunction
} from './rule.js'
import type { Spec } from './store/store.js'

/** A rule, validated and ready to decide by. */
export interface CompiledRule {
  /** As the rule was given. */
  options: Rule
  name: string
  /** The name and, if the rule is inline, what stands for its route: the names of its specs begin with it. */
  fullName: string
  counts: 'sends' | 'attempts' | 'failures'
  observed: boolean
  optional: boolean
  /** Whether the rule has a lock, in place of limits. */
  lock: boolean
  key: CompiledKey
  /** The key whose different values are counted, if the rule has one. */
  distinct: CompiledKey | undefined
  /** The parts of the key, then those of `distinct`. */
  parts: readonly CompiledPart[]
  /** Reads the value that the rule counts by, or a promise of it. For several parts it is a list with a value of each. */
  read(source: Source): unknown
  /** Takes from what was read the values of the key. */
  whoOf(values: unknown): unknown
  /**
   * Takes from what was read the values of `distinct`, and makes a number of them that tells different ones apart;
   * undefined without `distinct`, null when the rule does not apply.
   * @throws KeyMissingError, KeyInvalidError, FunctionError
   */
  distinctOf(values: unknown): number | null | undefined
  specs: readonly Spec[]
  /** If any `max` comes from the request: for each spec, the `max` of each of its limits. */
  max: readonly (readonly (number | MaxFunction)[])[] | undefined
  /** What a request takes of its limits; undefined where each takes 1. */
  cost: CostFunction | undefined
  /** If any time zone comes from the request: for each spec, its function. */
  timeZones: readonly (TimeZoneFunction | undefined)[] | undefined
  /** How long the lock is renewed at most, in milliseconds. */
  maxHold: number
  allowFunction: AllowFunction | undefined
  /** Whether headers hide the rule, always or from some requests. */
  hidden: boolean | PrivateFunction
  allowList: ((value: unknown) => boolean) | undefined
  blockList: ((value: unknown) => boolean) | undefined
}
