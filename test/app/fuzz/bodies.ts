import fc, { type Arbitrary } from 'fast-check'
import type { Schema } from './operations.js'
import { odd, oddName, validOf, type Words } from './values.js'

/** Texts of bodies: valid ones, valid ones with one change, other JSON, and what is no JSON. */
export function bodyOf(schema: Schema, words: Words): Arbitrary<string> {
  const valid = validOf(schema, words)
  return fc.oneof(
    { weight: 10, arbitrary: valid.map(text) },
    { weight: 7, arbitrary: fc.tuple(valid, change, fc.nat()).map(([value, wrong, at]) => wrong(value, at)) },
    { weight: 1, arbitrary: odd.map(text) },
    { weight: 1, arbitrary: valid.map(value => text(value) + SPACES) },
    { weight: 2, arbitrary: fc.tuple(valid, broken).map(([value, breakIt]) => breakIt(text(value))) }
  )
}

const text = (value: unknown) => JSON.stringify(value) ?? 'null'

type Change = (value: unknown, at: number) => string

/** Changes one member of an object, or the whole of a value that is no object. */
const change: Arbitrary<Change> = fc.oneof(
  fc.constant<Change>((value, at) => members(value, at, () => [])),
  odd.map<Change>(other => (value, at) => members(value, at, name => [[name, other]])),
  fc.constant<Change>((value, at) => members(value, at, (name, had) => [[name, [had]]])),
  fc.constant<Change>((value, at) => members(value, at, (name, had) => [[`${name} `, had]])),
  fc.tuple(oddName, odd).map<Change>(
    ([name, other]) =>
      (value, at) =>
        members(value, at, (...had) => [had, [name, other]])
  ),
  odd.map<Change>(other => (value, at) => members(value, at, (...had) => [had, [had[0], other]])),
  fc.constant<Change>(value => text([value]))
)

type Member = [name: string, value: unknown]

/** The text of an object, made by hand: JSON.stringify writes neither double members nor `__proto__`. */
function members(value: unknown, at: number, becomes: (...member: Member) => Member[]): string {
  if (typeof value !== 'object' || value === null) return text(value)
  const all: Member[] = Object.entries(value)
  if (all.length === 0) all.push(['extra', 1])
  const changed = all.flatMap((member, i) => (i === at % all.length ? becomes(...member) : [member]))
  return `{${changed.map(([name, each]) => `${JSON.stringify(name)}:${text(each)}`).join(',')}}`
}

type Break = (json: string) => string

/** More than a body may have. */
const SPACES = ' '.repeat(20_000)

const broken: Arbitrary<Break> = fc.oneof(
  fc.nat(200).map<Break>(at => json => json.slice(0, at % json.length)),
  fc.constantFrom<Break>(
    () => '',
    () => ' ',
    () => '{',
    () => '\ufeff{}',
    () => 'undefined',
    () => '[NaN]',
    () => '"\ud800"',
    () => '[1e999]',
    () => '\0'.repeat(20),
    () => 'phone=13800138000&purpose=register',
    () => '['.repeat(8_000),
    () => '['.repeat(4_000) + ']'.repeat(4_000),
    () => `${'{"a":'.repeat(2_500)}1${'}'.repeat(2_500)}`,
    json => json.replace(/}$/, ',"constructor":{"prototype":{"polluted":true}}}'),
    json => json.replace(/}$/, `,"params":${'{"a":'.repeat(500)}1${'}'.repeat(501)}`),
    json => `${json} ${json}`,
    json => json.replaceAll('"', "'"),
    json => SPACES + json,
    json => `${json.slice(0, -1)},}`
  )
)
