import { createHmac } from 'node:crypto'
import type { Policy } from '../policy-schema.js'
import { canonical, type Values } from '../templates/params.js'

/** What a code is derived from. The code itself is stored nowhere. */
interface CodeOf {
  id: string
  /** The canonical form of the recipient: all spellings of one recipient have the same. */
  identity: string
  purpose: string
  /** Distinguishes the codes of one id. */
  generation: number
  /** The values that the code is bound to, if any. */
  params?: Values
}

/**
 * Derives the code: an HMAC-SHA-256 under the key, truncated as in RFC 4226, section 5.3, but to eight bytes rather
 * than four, so that up to ten digits are uniform (to within 10^10 / 2^63).
 */
export function codeOf(key: Buffer, of: CodeOf, digits: number): string {
  const bound = of.params === undefined ? [] : [canonical(of.params)]
  const text = JSON.stringify([of.id, of.identity, of.purpose, of.generation, ...bound])
  const mac = createHmac('sha256', key).update(text).digest()
  const offset = (mac[mac.length - 1] as number) & 0xf
  const number = mac.readBigUInt64BE(offset) & 0x7fff_ffff_ffff_ffffn
  return String(number % 10n ** BigInt(digits)).padStart(digits, '0')
}

/** The lifetime that the message of a code states, in whole minutes: rounded down, but to no less than one. */
export function minutesOf(lifeMs: number): number {
  return wholeOf(lifeMs, 60_000)
}

/** The lifetime that providers are told, in whole seconds: rounded in the same way, since none takes 0. */
export function secondsOf(lifeMs: number): number {
  return wholeOf(lifeMs, 1_000)
}

function wholeOf(lifeMs: number, unitMs: number): number {
  return Math.max(Math.floor(lifeMs / unitMs), 1)
}

/** Stands for every code of a purpose where it is checked whether the message can be rendered: none is longer. */
export function longestCode(policy: Policy, purpose: string): { code: string; lifeMs: number } {
  const { digits, lifetimeSeconds } = codePolicy(policy, purpose)
  return { code: '0'.repeat(digits), lifeMs: lifetimeSeconds * 1_000 }
}

/**
 * Settings for codes of a purpose: the policy's `code`, overridden by the purpose's own, if that purpose still exists.
 */
export function codePolicy({ purposes, code }: Policy, purpose: string): Policy['code'] {
  return { ...code, ...purposes[purpose]?.code }
}
