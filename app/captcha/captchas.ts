import { createHmac, randomBytes, randomInt } from 'node:crypto'
import type { Clock } from '../clock.js'
import type { Checked, Codes } from './codes.js'

export interface Issued {
  id: string
  code: string
  /** Milliseconds since the epoch, by the clock of this process. */
  issuedAt: number
  expiresAt: number
}

export interface Captchas {
  /** Makes a code for a recipient and a purpose; an older one of both is ended. */
  issue(recipient: string, purpose: string): Promise<Issued>
  check(id: string, code: string): Promise<Checked>
  cancel(id: string): Promise<void>
}

interface Options {
  codes: Codes
  secret: string
  clock: Clock
  digits: number
  lifetimeSeconds: number
  tries: number
}

/** 16 bytes in base64url. */
const PART = 22
/** An id: 128 random bits, then the slot, a keyed hash of recipient and purpose. */
export const ID_PATTERN = `^[A-Za-z0-9_-]{${2 * PART}}$`

const parts = (id: string) => ({ nonce: id.slice(0, PART), slot: id.slice(PART) })

export function captchasOf({ codes, secret, clock, digits, lifetimeSeconds, tries }: Options): Captchas {
  const hash = (use: string, text: string) =>
    createHmac('sha256', secret).update(`captcha ${use} ${text}`).digest()
  const digestOf = (id: string, code: string) => hash('code', `${id} ${code}`).toString('base64url')
  return {
    async issue(recipient, purpose) {
      const slot = hash('slot', `${purpose} ${recipient}`).subarray(0, 16).toString('base64url')
      const nonce = randomBytes(16).toString('base64url')
      const id = nonce + slot
      const code = String(randomInt(10 ** digits)).padStart(digits, '0')
      await codes.keep({ slot, nonce, digest: digestOf(id, code) }, lifetimeSeconds * 1_000, tries)
      const issuedAt = clock.wall()
      return { id, code, issuedAt, expiresAt: issuedAt + lifetimeSeconds * 1_000 }
    },
    check: async (id, code) => codes.check({ ...parts(id), digest: digestOf(id, code) }),
    cancel: async id => codes.cancel(parts(id))
  }
}
