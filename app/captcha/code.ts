import { createHmac } from 'node:crypto'
import type { Policy } from '../policy.js'
import { canonical, type Values } from '../templates/params.js'

/** What a code is derived from: it is kept nowhere. */
interface CodeOf {
  id: string
  /** The recipient's one spelling. */
  identity: string
  purpose: string
  /** Tells the codes of one id apart. */
  generation: number
  /** What it is bound to, if to anything. */
  params?: Values
}

/**
 * The code: an HMAC-SHA-256 under the key, truncated as in RFC 4226, section 5.3, but to eight bytes rather than
 * four, so that up to ten digits are uniform (to within 10^10 / 2^63).
 */
export function codeOf(key: Buffer, of: CodeOf, digits: number): string {
  const bound = of.params === undefined ? [] : [canonical(of.params)]
  const text = JSON.stringify([of.id, of.identity, of.purpose, of.generation, ...bound])
  const mac = createHmac('sha256', key).update(text).digest()
  const offset = (mac[mac.length - 1] as number) & 0xf
  const number = mac.readBigUInt64BE(offset) & 0x7fff_ffff_ffff_ffffn
  return String(number % 10n ** BigInt(digits)).padStart(digits, '0')
}

/** How long a code is valid, as its message tells: in whole minutes, and no longer, but for a code of less than one. */
export function minutesOf(lifeMs: number): number {
  return Math.max(Math.floor(lifeMs / 60_000), 1)
}

/** How codes of a purpose are: by its own `code` over that of the policy; by the latter alone when the purpose is gone. */
export function codePolicy({ purposes, code }: Policy, purpose: string): Policy['code'] {
  return { ...code, ...purposes[purpose]?.code }
}
