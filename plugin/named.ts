import { isPromise } from './awaitable.js'
import type { CompiledRule } from './compiled-rule.js'
import { KeyMissingError, RuleUnknownError } from './errors.js'
import type { CompiledPart } from './identity/part.js'
import { wrongOption } from './mistakes.js'
import type { Entry } from './store/store.js'

/**
 * Values by the name of the rule: one value, or a list with a value for each part of the rule's key and then for each
 * part of its `distinct`.
 */
export type Keys = Record<string, unknown>

type Rules = ReadonlyMap<string, CompiledRule>

/** The rules that `keys` names, and the values that each one counts by. @throws OptionError, RuleUnknownError */
export function namedBy(keys: Keys, known: Rules): { rules: CompiledRule[]; values: unknown[] } {
  const names = namesIn(keys)
  const rules: CompiledRule[] = new Array(names.length)
  const values: unknown[] = new Array(names.length)
  for (let i = 0; i < names.length; i++) rules[i] = ruleOf(names[i] as string, known)
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string
    values[i] = valuesOf(rules[i] as CompiledRule, name, keys[name])
  }
  return { rules, values }
}

/**
 * The entries for all that a store keeps of the identities that `keys` names.
 * @throws as `namedBy`, and KeyMissingError, KeyInvalidError, FunctionError
 */
export function entriesOf(keys: Keys, known: Rules): Entry[] {
  const { rules, values } = namedBy(keys, known)
  return rules.flatMap((rule, i) => {
    const identity = rule.key.identify(rule.whoOf(values[i]), false)
    if (identity === null) throw new KeyMissingError(rule.name)
    return rule.specs.map(spec => ({ spec, identity }))
  })
}

/**
 * The names of the rules. Anything but an object of values by rule is refused: no rule would be found in it, and the
 * identity that was meant would pass.
 * @throws OptionError
 */
function namesIn(keys: Keys): string[] {
  const isObject = typeof keys === 'object' && keys !== null && !Array.isArray(keys)
  const names = isObject ? Object.keys(keys) : []
  // A `Map` or a promise is an object without names.
  // The error does not show what was given: it may be a phone number by itself.
  if (!isObject || (names.length === 0 && (Symbol.iterator in keys || isPromise(keys))))
    throw wrongOption('keys', keys, 'Write values by rule, as in { mobile: "+8613800138000" }.', true)
  return names
}

function ruleOf(name: string, known: Rules): CompiledRule {
  const rule = known.get(name)
  if (rule !== undefined) return rule
  throw new RuleUnknownError('keys', 'rule', name, [...known.keys()].join(', ') || 'none')
}

/**
 * The values as the rule reads them from a request: one value, or a list with one for each part, as far as they were
 * given.
 * @throws OptionError
 */
function valuesOf({ parts }: CompiledRule, name: string, value: unknown): unknown {
  if (parts.length === 1) return value
  const several: unknown[] = Array.isArray(value) ? value : [value]
  // A list of several identities is an error: the caller must not believe that all of them are blocked.
  if (several.length > parts.length) {
    const shape = parts.map(shapeOf).join(', ')
    const right = `Name one identity at a time, by ${parts.length} values: [${shape}].`
    throw wrongOption(`keys.${name}.length`, several.length, right)
  }
  return several
}

/** How an error shows the value of a part: all values of a content are one list. */
function shapeOf({ kind, label }: CompiledPart): string {
  return kind === 'digest' ? `[${label}]` : label
}
