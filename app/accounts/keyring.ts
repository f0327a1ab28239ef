import { createHash, timingSafeEqual } from 'node:crypto'

export const sha256 = (key: string): Buffer => createHash('sha256').update(key).digest()

/** Keys, each opening something. They are held as SHA-256 hashes alone. */
export class Keyring<T> {
  private readonly held = new Map<string, { hash: Buffer; opens: T }>()

  /** @returns false when the key is there already */
  add(hash: Buffer, opens: T): boolean {
    const name = hash.toString('hex')
    if (this.held.has(name)) return false
    this.held.set(name, { hash, opens })
    return true
  }

  /** All keys are compared, whichever it is, so that the time tells nothing of them. */
  find(key: string): T | undefined {
    const given = sha256(key)
    let found: T | undefined
    for (const { hash, opens } of this.held.values()) if (timingSafeEqual(hash, given)) found = opens
    return found
  }
}
