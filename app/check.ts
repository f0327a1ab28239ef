import { visit } from 'jsonc-parser'
import type { Static, TSchema } from 'typebox'
import { Errors, Pointer } from 'typebox/value'

/** A mistake in something that an operator wrote. The message says what is wrong, and what would be right. */
export class ConfigError extends Error {
  override name = 'ConfigError'
}

/**
 * Whether an error is a mistake that an operator can correct, found by the app, or by the plugin in a rule or option.
 */
export function isMistake(error: unknown): error is Error {
  const { code = '' } = error as { code?: unknown }
  return error instanceof ConfigError || String(code).startsWith('FST_SEND_LIMIT_')
}

/**
 * Reads the JSON of a file that an operator wrote, without the byte order mark that some editors put before it (RFC
 * 8259, section 8.1).
 * @throws ConfigError when an object has a member twice; another error when it is not JSON, or not UTF-8: messages
 * would go out with replacement characters
 */
export function parseJson(file: Uint8Array) {
  const text = new TextDecoder('utf-8', { fatal: true }).decode(file)
  const value = JSON.parse(text)
  const repeated = findRepeated(text)
  if (repeated === undefined) return value
  throw new ConfigError(`it has a member twice: ${dotted('', value, repeated)}`)
}

/** Finds the path of a member that an object has twice: `JSON.parse` takes the last of them without a word. */
function findRepeated(json: string): string[] | undefined {
  const objects: Set<string>[] = []
  let repeated: string[] | undefined
  visit(json, {
    onObjectBegin() {
      objects.push(new Set())
    },
    onObjectProperty(name, _offset, _length, _line, _character, pathOfObject) {
      const names = objects.at(-1)
      if (names?.has(name)) repeated ??= [...pathOfObject().map(String), name]
      names?.add(name)
    },
    onObjectEnd() {
      objects.pop()
    }
  })
  return repeated
}

/**
 * Checks a value against its schema.
 * @param called the name of the value as a whole, for the error; empty to name its members alone
 * @throws ConfigError that names the first member at fault
 */
export function check<S extends TSchema>(schema: S, value: unknown, called: string): Static<S> {
  const errors = Errors(schema, value)
  // For each unknown member TypeBox has an error `boolean`, then one `additionalProperties` for all. Its list ends
  // after eight errors, so with eight unknown members the latter is missing.
  const error = errors.find(each => each.keyword !== 'boolean') ?? errors[0]
  if (error === undefined) return value as Static<S>
  const { requiredProperties, additionalProperties, allowedValues } = error.params as Record<string, string[]>
  const within = Pointer.Indices(error.instancePath)
  const [missing] = requiredProperties ?? []
  const [unknown] = error.keyword === 'boolean' ? within.splice(-1) : (additionalProperties ?? [])
  const extra = missing ?? unknown
  const path = extra === undefined ? within : [...within, extra]
  const { description, writeOnly } = member(schema, path) ?? {}
  const right = () => {
    if (missing !== undefined) return 'is required'
    if (unknown !== undefined) return `is not known here; known: ${known(member(schema, within) ?? {})}`
    if (allowedValues !== undefined) return `must be one of ${allowedValues.join(', ')}`
    // The description, which follows, says more than the pattern would.
    return error.keyword === 'pattern' && description !== undefined ? 'is wrong' : error.message
  }
  // An unknown member is not shown, since it may be a secret under a wrong name.
  const given = extra !== undefined || writeOnly ? '' : shown(at(value, path))
  const hint = description === undefined || unknown !== undefined ? '' : ` It is ${description}.`
  throw new ConfigError(`${dotted(called, value, path)}${given} ${right()}.${hint}`)
}

const MOST_SHOWN = 80

/** A value as it was given. Of an object or list with members nothing is shown: it may be any file at all. */
function shown(value: unknown): string {
  if (typeof value === 'object' && value !== null && Object.keys(value).length > 0) return ''
  return ` (${quoted(value)})`
}

/** A value in JSON, cut off where it is so long that it would hide what is wrong with it. */
export function quoted(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN).toWellFormed()}…` : text
}

/** The path in the form of `policy.rules[0].name`. */
function dotted(called: string, value: unknown, path: readonly string[]): string {
  const parts = path.map((name, i) => (Array.isArray(at(value, path.slice(0, i))) ? `[${name}]` : `.${name}`))
  return `${called}${parts.join('')}`.replace(/^\./, '')
}

/** The names that the members of an object may have, or what they look like. */
function known({ properties, names }: Member): string {
  return names ?? Object.keys(properties ?? {}).join(', ')
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((each, name) => (each as Record<string, unknown> | undefined)?.[name], value)
}

interface Member {
  description?: string
  writeOnly?: boolean
  /** The names that a record takes, in words. */
  names?: string
  properties?: Record<string, Member>
  patternProperties?: Record<string, Member>
  items?: Member
}

function member(schema: Member, path: readonly string[]): Member | undefined {
  const within = (each: Member | undefined, name: string) =>
    each?.properties?.[name] ?? each?.items ?? Object.values(each?.patternProperties ?? {})[0]
  return path.reduce<Member | undefined>(within, schema)
}
