import fc, { type Arbitrary } from 'fast-check'
import { bodyOf } from './bodies.js'
import { headersOf } from './headers.js'
import type { Operation } from './operations.js'
import { anyText, validOf, type Words } from './values.js'

/** One request, and the state before it. */
export interface Case {
  url: string
  headers: Record<string, string>
  payload: string | undefined
  /** How far the clock is moved before the request, in milliseconds. */
  advanceMs: number
  /** The state of the code that {@link LIVE_ID} and {@link LIVE_CODE} stand for. */
  code: 'live' | 'verified' | 'cancelled' | 'expired'
}

/** Stands for the id of a code that exists; `LIVE_CODE` stands for the code. Both fit the schema. */
export const LIVE_ID = 'the-id-of-a-live-code-'
export const LIVE_CODE = '9876543210'

/** Requests to an operation: valid ones, and some with mistakes. */
export function requestsTo(
  operation: Operation,
  words: Words,
  usual: Record<string, string>
): Arbitrary<Case> {
  const { parameters = [], body, path } = operation
  const inPath = parameters.filter(each => each.in === 'path')
  const inQuery = parameters.filter(each => each.in === 'query')
  const names = fc.record(
    Object.fromEntries(
      inPath.map(({ name, schema }) => [name, encoded(validOf(schema, words, name).map(String))])
    )
  )
  const query = fc.record(
    Object.fromEntries(inQuery.map(({ name, schema }) => [name, validOf(schema, words, name).map(String)])),
    { requiredKeys: [] }
  )
  const asked = fc.oneof(
    {
      weight: 6,
      arbitrary: query.map(each => new URLSearchParams(each as Record<string, string>).toString())
    },
    { weight: 1, arbitrary: oddQuery }
  )
  const url = fc
    .tuple(names, asked)
    .map(
      ([params, search]) =>
        path.replace(/{(\w+)}/g, (_, name) => String(params[name])) + (search && `?${search}`)
    )
  return fc.record({
    url,
    headers: headersOf(body === undefined ? usual : { ...usual, 'content-type': 'application/json' }),
    payload: body === undefined ? unwanted : bodyOf(body, words),
    advanceMs: fc.constantFrom(0, 0, 999, 61_000, 61_000, 3_600_001, 86_400_001),
    code: fc.oneof(
      { weight: 6, arbitrary: fc.constant('live' as const) },
      { weight: 2, arbitrary: fc.constantFrom('verified' as const, 'cancelled' as const, 'expired' as const) }
    )
  })
}

/** Bodies for an operation that takes none. */
const unwanted = fc.oneof(
  { weight: 4, arbitrary: fc.constant(undefined) },
  bodyOf({ type: 'null' }, {}),
  fc.constant('0'.repeat(20_000))
)

/** Replaces halves of surrogate pairs, which cannot be encoded. */
const wellFormed = (text: string) => text.replace(/\p{Cs}/gu, '\ufffd')

/** Parts of a path: mostly valid; else encoded throughout, odd, too long, or encoded wrongly. */
const encoded = (valid: Arbitrary<string>) =>
  fc.oneof(
    { weight: 8, arbitrary: valid },
    { weight: 1, arbitrary: valid.map(each => each.replace(/./g, c => `%${c.charCodeAt(0).toString(16)}`)) },
    { weight: 1, arbitrary: anyText.map(each => encodeURIComponent(wellFormed(each))) },
    {
      weight: 1,
      arbitrary: fc.constantFrom('%', '%zz', '%00', '%c0%af', '%ff', '..', '%2e%2e', '*', 'a'.repeat(101), '')
    }
  )

const oddQuery = fc.oneof(
  fc.constantFrom('', '&&&', '=', '%', '%00=%00', 'a=b', '__proto__[x]=1', 'constructor=1', '?', '%ff=%c0'),
  fc.constantFrom('standing=blocked&standing=allowed', 'limit=0', 'limit=1&limit=2', 'limit=１', 'after=0'),
  fc.constantFrom('after=999999999999999', 'after=1e3', 'standing[]=blocked', `a=${'b'.repeat(3_000)}`),
  anyText.map(each => encodeURIComponent(wellFormed(each)))
)
