import { hkdfSync, randomBytes, randomUUID } from 'node:crypto'
import { keyedHash, sameText } from '../keyed-hash.js'
import type { Policy } from '../policy.js'
import { seal, unseal } from '../seal.js'
import type { Channel } from '../senders/sender.js'
import { canonical, type Values } from '../templates/params.js'
import { codeOf, codePolicy } from './code.js'
import type { Checked, Kept, Records, Terms } from './records.js'

/** Whose a code is, and what for. */
export interface Asked {
  channel: Channel
  to: string
  identity: string
  masked: string
  purpose: string
  /** The language of its messages, as in `en`. */
  locale: string
  /** Id of the account that asked for it; null: none did. */
  account: string | null
  /** Whether no message goes, for a recipient who is no user, and nobody is to see that. */
  withheld: boolean
  /** Whether its purpose concealed, when it was asked for, what becomes of its messages. */
  concealed: boolean
  /** What it is bound to, as its message shows it; left out: to nothing. */
  params?: Values
}

/** A code by its id, as it stood when it was looked up. */
export interface Captcha extends Asked {
  id: string
  /** How long the code is, whatever the policy has become since. */
  digits: number
  kept: Kept
}

/** A code that is to be sent. */
export interface Issued {
  id: string
  generation: number
  code: string
  /** How long it is valid, in milliseconds. */
  lifeMs: number
  /** Takes it back: the code before it is valid again, and a first one is forgotten, unless it was sent again. */
  undo(): Promise<void>
}

export interface Captchas {
  /** Makes a code under an id of its own. @throws a problem (503) */
  start(asked: Asked): Promise<Issued>
  /** @returns null for an id that is unknown, or another account's */
  find(id: string, account: string | null): Promise<Captcha | null>
  /**
   * Counts a try of it; the right code is used up.
   * @param code undefined for one that cannot be right
   * @param params what it is said to be bound to: anything else than that makes every code a wrong one
   */
  check(captcha: Captcha, code: string | undefined, params?: Values): Promise<Checked>
  /**
   * The code to send again: the next one, which ends the former, or the same one, as the policy says.
   * @returns null when the code was verified or cancelled, or is to be the same and has ended
   */
  renew(captcha: Captcha): Promise<Issued | null>
  /** Ends it for good: it cannot be sent again. @returns false when it was verified or cancelled before */
  cancel(captcha: Captcha): Promise<boolean>
  /** Notes which sender took the message; `''`: none is known to have. */
  noteSender(issued: Issued, sender: string): Promise<void>
}

/** 128 random bits in base64url. */
export const ID_PATTERN = '^[A-Za-z0-9_-]{22}$'

interface Options {
  records: Records
  /** Keys are derived from it; it is not in Redis. */
  secret: string
  /** The policy in force. */
  policy: () => Policy
}

/** What is sealed. */
type About = Omit<Captcha, 'id' | 'kept'>

export function captchasOf({ records, secret, policy }: Options): Captchas {
  const derive = (use: string) => Buffer.from(hkdfSync('sha256', secret, '', `captcha ${use}`, 32))
  const keys = { code: derive('code'), seal: derive('seal'), id: derive('id'), params: derive('params') }
  const keyOf = (id: string) => keyedHash(keys.id, id)
  const hashOf = (params: Values) => keyedHash(keys.params, canonical(params))
  // As most codes are.
  const unbound = hashOf({})
  const paramsOf = (params: Values | undefined) => (params === undefined ? unbound : hashOf(params))

  const code = (captcha: Omit<Captcha, 'kept'>, generation: number) =>
    codeOf(keys.code, { ...captcha, generation }, captcha.digits)

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
      const { generation } = captcha.kept
      const agrees = sameText(paramsOf(params), paramsOf(captcha.params))
      const right = given !== undefined && sameText(given, code(captcha, generation)) && agrees
      return records.check(keyOf(captcha.id), right ? generation : 0)
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
      const former = await records.rotate(keyOf(id), terms, token)
      if (former === null) return null
      const undo = () => records.restore(keyOf(id), token)
      const generation = former.made + 1
      return { id, generation, code: code(captcha, generation), lifeMs: terms.lifeMs, undo }
    },

    cancel: ({ id }) => records.cancel(keyOf(id)),
    noteSender: ({ id, generation }, sender) => records.noteSender(keyOf(id), generation, sender)
  }
}

function termsOf({ lifetimeSeconds, tries }: Policy['code']): Terms {
  return { lifeMs: lifetimeSeconds * 1_000, tries }
}
