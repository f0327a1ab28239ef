import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import { ReceiptError } from '../errors.js'
import { brief } from './half-sip-hash.js'
import type { Spec, Taken } from './store.js'

const CIPHER = 'aes-256-gcm'
const VERSION = 1
// In bytes. A text has a head (the version, and by which secret it was made), a salt, what it says, and a tag.
const ID = 6
const HEAD = 1 + ID
const SALT = 16
const TAG = 16
const KEY = 32
const IV = 12

const ALTERED = 'was altered or cut short on its way'

interface ReceiptsOptions {
  /** Shared by all that may open what is made here. */
  secret: string
  /** What they have in common beside it. */
  scope: string
  /** Ends the sentence on one that was made under another of these: `the receipt …`. */
  foreign: string
}

type Said = [
  kind: Spec['kind'],
  name: string,
  series: number,
  identity: string,
  receipt: number,
  ends: number
]

/**
 * What was taken, as a text that passes through strangers' hands: AES-256-GCM, so that it tells them nothing and they cannot
 * make one. Each has a key of its own, by HKDF: a salt of 128 bits never comes twice, as an IV of 96 might among many.
 */
export class Receipts {
  private readonly head: Buffer

  constructor(private readonly options: ReceiptsOptions) {
    this.head = Buffer.concat([Buffer.of(VERSION), this.derive('id', Buffer.alloc(0), ID)])
  }

  /** @param taken none of it a lock */
  make(taken: readonly Taken[]): string {
    const said = taken.map(
      ({ entry: { spec, identity }, receipt, ends }): Said => [
        spec.kind,
        spec.name,
        spec.series,
        brief(identity),
        receipt,
        ends
      ]
    )
    const salt = randomBytes(SALT)
    const cipher = createCipheriv(CIPHER, ...this.keyOf(salt))
    const body = cipher.update(JSON.stringify(said), 'utf8')
    return Buffer.concat([this.head, salt, body, cipher.final(), cipher.getAuthTag()]).toString('base64url')
  }

  /**
   * @param ruleOf the number here of the rule that keeps something under this name
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
    const said = JSON.parse(body.toString('utf8')) as Said[]
    return said.map(([kind, name, series, identity, receipt, ends]) => ({
      entry: { spec: specOf(kind, name, series, ruleOf(name)), identity },
      receipt,
      ends
    }))
  }

  private bytesOf(text: unknown): Buffer {
    const none = 'is none: pass the text as receipt() gave it'
    if (typeof text !== 'string') throw new ReceiptError(none)
    const bytes = Buffer.from(text, 'base64url')
    if (bytes[0] !== VERSION || bytes.length < HEAD + SALT + TAG) throw new ReceiptError(none)
    if (!bytes.subarray(0, HEAD).equals(this.head)) throw new ReceiptError(this.options.foreign)
    // Buffer passes over what is no base64url.
    if (bytes.toString('base64url') !== text) throw new ReceiptError(ALTERED)
    return bytes
  }

  private keyOf(salt: Buffer): [key: Buffer, iv: Buffer] {
    const both = this.derive('key', salt, KEY + IV)
    return [both.subarray(0, KEY), both.subarray(KEY)]
  }

  private derive(what: string, salt: Buffer, length: number): Buffer {
    const { secret, scope } = this.options
    // Hashed: what is said there has 1,024 bytes at most.
    const info = `fastify-send-limit receipt ${what} ${hash('sha256', scope)}`
    return Buffer.from(hkdfSync('sha256', secret, salt, info, length))
  }
}

/** A spec as far as a refund looks at it: its rule may be gone, or never have been here. */
function specOf(kind: Spec['kind'], name: string, series: number, rule: number): Spec {
  return {
    kind,
    name,
    series,
    rule,
    observed: false,
    forgettable: false,
    limits: [],
    present: {},
    // How long it lives is not known: as far as memory keeps its stamps by that, it may be for ever.
    ttl: Number.POSITIVE_INFINITY,
    keep: 0,
    per: 'day',
    timeZone: 'UTC'
  } as Spec
}
