import { isPromise } from './awaitable.js'
import type { CompiledRule } from './compiled-rule.js'
import { KeyMissingError, RuleUnknownError } from './errors.js'
import type { CompiledPart } from './identity/part.js'
import { wrongOption } from './mistakes.js'
import type { Entry } from './store/store.js'

/** Values by rule: one value, or one for each part of the rule's key, then of what it tells apart (`distinct`). */
export type Keys = Record<string, unknown>

type Rules = ReadonlyMap<string, CompiledRule>

/** The rules that are named, and what each is to count by. @throws OptionError, RuleUnknownError */
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

/** All that is kept of whom they name. @throws as `namedBy`, and KeyMissingError, KeyInvalidError */
export function entriesOf(keys: Keys, known: Rules): Entry[] {
  const { rules, values } = namedBy(keys, known)
  return rules.flatMap((rule, i) => {
    const identity = rule.key.identify(rule.whoOf(values[i]), false)
    if (identity === null) throw new KeyMissingError(rule.name)
    return rule.specs.map(spec => ({ spec, identity }))
  })
}

/**
 * The rules' names. What is no object of values by rule is refused: no rule would be found in it, and whoever was meant would
 * pass.
 * @throws OptionError
 */
function namesIn(keys: Keys): string[] {
  const isObject = typeof keys === 'object' && keys !== null && !Array.isArray(keys)
  const names = isObject ? Object.keys(keys) : []
  // Of a `Map` or a promise there are none.
  if (!isObject || (names.length === 0 && (Symbol.iterator in keys || isPromise(keys))))
    throw wrongOption('keys', keys, 'Write values by rule, as in { mobile: "+8613800138000" }.')
  return names
}

function ruleOf(name: string, known: Rules): CompiledRule {
  const rule = known.get(name)
  if (rule !== undefined) return rule
  throw new RuleUnknownError('keys', 'rule', name, [...known.keys()].join(', ') || 'none')
}

/** As a rule reads them: its value, or one for each part, as far as they were named. @throws OptionError */
function valuesOf({ key, distinct }: CompiledRule, name: string, value: unknown): unknown {
  const parts = key.parts.length + (distinct?.parts.length ?? 0)
  if (parts === 1) return value
  const several: unknown[] = Array.isArray(value) ? value : [value]
  // Whoever lists identities must not believe that all of them are blocked.
  if (several.length > parts) {
    const shape = [...key.parts, ...(distinct?.parts ?? [])].map(shapeOf).join(', ')
    const right = `Name one identity at a time, by ${parts} values: [${shape}].`
    throw wrongOption(`keys.${name}.length`, several.length, right)
  }
  return several
}

/** What stands for a part: of a content all its values, as one list. */
function shapeOf({ kind, label }: CompiledPart): string {
  return kind === 'digest' ? `[${label}]` : label
}
