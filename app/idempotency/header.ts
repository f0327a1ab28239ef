import type { IncomingHttpHeaders } from 'node:http'
import { problem } from '../problem.js'

// No spaces: Node joins repeated headers with a comma and a space, so a request with two keys never matches.
const QUOTED = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"$/
const BARE = /^[\x21\x23-\x2b\x2d-\x7e]+$/
const MAX_LENGTH = 64

/**
 * The key of a request: a String of RFC 8941, section 3.3.3, without parameters. Most clients send it without quotes.
 * It is the same key then, but may hold neither quotes nor commas.
 * @returns undefined when there is no key
 * @throws a problem (400) when the key is not 1 to 64 visible characters, or there are two
 */
export function keyOf(headers: IncomingHttpHeaders): string | undefined {
  const header = headers['idempotency-key']
  if (header === undefined) return undefined
  const text = String(header)
  const quoted = QUOTED.exec(text)?.[1]?.replace(/\\(.)/g, '$1')
  const key = quoted ?? BARE.exec(text)?.[0] ?? ''
  if (key !== '' && key.length <= MAX_LENGTH) return key
  throw problem(
    400,
    'IDEMPOTENCY_KEY_INVALID',
    'The header Idempotency-Key must be sent once and have 1 to 64 visible characters.'
  )
}
