import { createCipheriv, createDecipheriv, createHmac, hash, hkdfSync, randomBytes } from 'node:crypto'
import { ReceiptError } from '../errors.js'
import { brief } from './half-sip-hash.js'
import type { Spec, Taken } from './store.js'

const CIPHER = 'aes-256-gcm'
const VERSION = 2
// Lengths in bytes. A receipt has a head (the version, and an id of secret and scope), a salt, its contents, and a tag.
const ID = 6
const HEAD = 1 + ID
const SALT = 16
const TAG = 16
const KEY = 32
const IV = 12

const ALTERED = 'was altered or cut short on its way'

interface ReceiptsOptions {
  /** The secret of all who may open receipts that are made here. */
  secret: string
  /** What all of them have in common beside the secret. */
  scope: string
  /** What is wrong with a receipt of another secret or scope. It ends a sentence that begins with `the receipt`. */
  foreign: string
}

type SlotTuple = [
  kind: Spec['kind'],
  name: string,
  series: number,
  identity: string,
  receipt: number,
  ends: number,
  cost?: number
]

/**
 * Writes taken slots as a text that may pass through strangers' hands. It is encrypted by AES-256-GCM, so it tells
 * strangers nothing, and they cannot make one. Each receipt has a key and an IV of its own, which HMAC-SHA-512 makes of
 * its salt: 128 random bits never come twice, as an IV of 96 bits might among many receipts.
 */
export class Receipts {
  private readonly head: Buffer
  private readonly key: Buffer

  constructor(private readonly options: ReceiptsOptions) {
    this.head = Buffer.concat([Buffer.of(VERSION), this.derive('id', ID)])
    this.key = this.derive('key', KEY)
  }

  /** @param taken slots, none of them a lock */
  make(taken: readonly Taken[]): string {
    const slots = taken.map(
      ({ entry: { spec, identity, cost }, receipt, ends }): SlotTuple => [
        spec.kind,
        spec.name,
        spec.series,
        brief(identity),
        receipt,
        ends,
        ...(cost === undefined ? ([] as const) : ([cost] as const))
      ]
    )
    const salt = randomBytes(SALT)
    const cipher = createCipheriv(CIPHER, ...this.keyOf(salt))
    const body = cipher.update(JSON.stringify(slots), 'utf8')
    return Buffer.concat([this.head, salt, body, cipher.final(), cipher.getAuthTag()]).toString('base64url')
  }

  /**
   * @param ruleOf gives the number, in this process, of the rule that has, or had, a spec of this name
   * @throws ReceiptError
   */
  open(text: unknown, ruleOf: (name: string) => number): Taken[] {
    const bytes = this.bytesOf(text)
    const salt = bytes.subarray(HEAD, HEAD + SALT)
    const decipher = createDecipheriv(CIPHER, ...this.keyOf(salt), { authTagLength: TAG })
    decipher.setAuthTag(bytes.subarray(-TAG))
    const body = decipher.update(bytes.subarray(HEAD + SALT, -TAG))
    try {
      decipher.final()
    } catch {
      throw new ReceiptError(ALTERED)
    }
    const slots = JSON.parse(body.toString('utf8')) as SlotTuple[]
    return slots.map(([kind, name, series, identity, receipt, ends, cost]) => ({
      entry: { spec: specOf(kind, name, series, ruleOf(name)), identity, cost },
      receipt,
      ends
    }))
  }

  private bytesOf(text: unknown): Buffer {
    const none = 'is none that this version of the plugin makes: pass the text as receipt() gave it'
    if (typeof text !== 'string') throw new ReceiptError(none)
    const bytes = Buffer.from(text, 'base64url')
    if (bytes[0] !== VERSION || bytes.length < HEAD + SALT + TAG) throw new ReceiptError(none)
    if (!bytes.subarray(0, HEAD).equals(this.head)) throw new ReceiptError(this.options.foreign)
    // Buffer skips characters that are not base64url.
    if (bytes.toString('base64url') !== text) throw new ReceiptError(ALTERED)
    return bytes
  }

  private keyOf(salt: Buffer): [key: Buffer, iv: Buffer] {
    const bytes = createHmac('sha512', this.key).update(salt).digest()
    return [bytes.subarray(0, KEY), bytes.subarray(KEY, KEY + IV)]
  }

  private derive(what: string, length: number): Buffer {
    const { secret, scope } = this.options
    // The scope is hashed, since HKDF takes at most 1,024 bytes of info.
    const info = `fastify-send-limit receipt ${what} ${hash('sha256', scope)}`
    return Buffer.from(hkdfSync('sha256', secret, '', info, length))
  }
}

/** A spec with what a refund needs of it. Its rule may be gone, or may never have been in this process. */
function specOf(kind: Spec['kind'], name: string, series: number, rule: number): Spec {
  return {
    kind,
    name,
    series,
    rule,
    observed: false,
    forgettable: false,
    limits: [],
    inForce: {},
    // The time to live is not known. Memory chooses the width of stamps by it: without an end, any stamp fits.
    ttl: Number.POSITIVE_INFINITY,
    keep: 0,
    per: 'day',
    timeZone: 'UTC'
  } as Spec
}
