import { hkdfSync, randomBytes, randomUUID } from 'node:crypto'
import { keyedHash, sameText } from '../keyed-hash.js'
import type { Policy } from '../policy-schema.js'
import type { Recipient } from '../recipient.js'
import { seal, unseal } from '../seal.js'
import { canonical, type Values } from '../templates/params.js'
import { codeOf, codePolicy } from './code.js'
import {
  type Checked,
  isRenewable,
  isUsable,
  type Kept,
  type Records,
  type Sent,
  type Terms
} from './records.js'

/** What a code is requested with: recipient, purpose and circumstances. */
export interface Asked extends Recipient {
  purpose: string
  /** The language of the code's messages, such as `en`. */
  locale: string
  /** Id of the account that requested the code. */
  account: string
  /** Whether no message is sent, since the caller knows no such user (`send: false`). No answer may show that. */
  withheld: boolean
  /** Whether, when the code was requested, its purpose concealed what becomes of messages. */
  concealed: boolean
  /** The values that the code is bound to, as its message shows them. Left out: it is bound to none. */
  params?: Values
}

/** A code as it stood when it was looked up by its id. */
export interface Captcha extends Asked {
  id: string
  /** The length of the code. A later change of the policy does not affect it. */
  digits: number
  kept: Kept
}

/** A code that is to be sent. */
export interface Issued {
  id: string
  /** Which code of this id it is, counted from 1. */
  generation: number
  code: string
  /** How long the code is valid, in milliseconds. */
  lifeMs: number
  /**
   * Takes the code back. After a resend, the former code is valid again, unless the next one was resent unchanged
   * meanwhile. A first code is forgotten, unless it has been resent meanwhile. A code that was resent unchanged
   * (`resend: "reuse"`) stays.
   */
  undo(): Promise<void>
}

export interface Captchas {
  /** Makes a code under a new id. @throws a problem (503) */
  start(asked: Asked): Promise<Issued>
  /** @returns null when the id is unknown or belongs to another account */
  find(id: string, account: string): Promise<Captcha | null>
  /**
   * Counts a try of the code. The right code is used up by it.
   * @param code the code as given; undefined counts as a wrong one
   * @param params the values that the caller takes the code to be bound to. If they differ from the code's own, every
   * code is wrong.
   */
  check(captcha: Captcha, code: string | undefined, params?: Values): Promise<Checked>
  /**
   * The code for a resend. By the policy's `resend` it is the next code, which ends the former, or the same code.
   * @returns null when the code was verified or cancelled; also when the same code is to be sent and has ended
   */
  renew(captcha: Captcha): Promise<Issued | null>
  /** Whether, as the code stood when it was looked up, a resend has a code to send; `renew` has the last word. */
  mayRenew(captcha: Captcha): boolean
  /** Ends the code for good: it cannot be resent. @returns false when it was verified or cancelled before */
  cancel(captcha: Captcha): Promise<boolean>
  /** Notes what became of the message. @returns whether the code is verified already */
  noteSent(issued: Issued, sent: Sent): Promise<boolean>
}

/** 128 random bits in base64url. */
export const ID_PATTERN = '^[A-Za-z0-9_-]{22}$'

interface Options {
  records: Records
  /** All keys are derived from the secret. It is never in Redis. */
  secret: string
  /** The policy in force. */
  policy: () => Policy
}

/** The members of a code that the store gets sealed (encrypted). */
type About = Omit<Captcha, 'id' | 'kept'>

export function captchasOf({ records, secret, policy }: Options): Captchas {
  const derive = (use: string) => Buffer.from(hkdfSync('sha256', secret, '', `captcha ${use}`, 32))
  const keys = { code: derive('code'), seal: derive('seal'), id: derive('id'), params: derive('params') }
  const keyOf = (id: string) => keyedHash(keys.id, id)
  const hashOf = (params: Values) => keyedHash(keys.params, canonical(params))
  // Hashed once, since most codes are bound to nothing.
  const unbound = hashOf({})
  const paramsOf = (params: Values | undefined) => (params === undefined ? unbound : hashOf(params))

  const code = (captcha: Omit<Captcha, 'kept'>, generation: number) =>
    codeOf(keys.code, { ...captcha, generation }, captcha.digits)

  /**
   * The generation whose code was given; 0 for none. Former ones count, too: a resend under way may be taken back, so
   * that a former code is valid again when the try is counted.
   */
  const generationOf = (captcha: Captcha, given: string) => {
    let generation = captcha.kept.generation
    while (generation > 0 && !sameText(given, code(captcha, generation))) generation--
    return generation
  }

  return {
    async start(asked) {
      const id = randomBytes(16).toString('base64url')
      const own = codePolicy(policy(), asked.purpose)
      const about: About = { ...asked, digits: own.digits }
      const terms = termsOf(own)
      await records.put(keyOf(id), seal(keys.seal, JSON.stringify(about), id), terms)
      const undo = () => records.drop(keyOf(id))
      return { id, generation: 1, code: code({ ...about, id }, 1), lifeMs: terms.lifeMs, undo }
    },

    async find(id, account) {
      const kept = await records.get(keyOf(id))
      if (kept === null) return null
      const about = JSON.parse(unseal(keys.seal, kept.sealed, id)) as About
      return about.account === account ? { ...about, id, kept } : null
    },

    async check(captcha, given, params) {
      const agrees = sameText(paramsOf(params), paramsOf(captcha.params))
      return records.check(
        keyOf(captcha.id),
        given !== undefined && agrees ? generationOf(captcha, given) : 0
      )
    },

    async renew(captcha) {
      const { id } = captcha
      const own = codePolicy(policy(), captcha.purpose)
      if (own.resend === 'reuse') {
        const kept = await records.reuse(keyOf(id))
        if (kept === null) return null
        const { generation, lifeMs } = kept
        return { id, generation, code: code(captcha, generation), lifeMs, async undo() {} }
      }
      const terms = termsOf(own)
      const token = randomUUID()
      const generation = await records.rotate(keyOf(id), terms, token)
      if (generation === null) return null
      const undo = () => records.restore(keyOf(id), token)
      return { id, generation, code: code(captcha, generation), lifeMs: terms.lifeMs, undo }
    },

    mayRenew: ({ purpose, kept }) =>
      codePolicy(policy(), purpose).resend === 'reuse' ? isUsable(kept) : isRenewable(kept),

    cancel: ({ id }) => records.cancel(keyOf(id)),
    noteSent: ({ id, generation }, sent) => records.noteSent(keyOf(id), generation, sent)
  }
}

function termsOf({ lifetimeSeconds, tries }: Policy['code']): Terms {
  return { lifeMs: lifetimeSeconds * 1_000, tries }
}
