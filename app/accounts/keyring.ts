import { createHash, timingSafeEqual } from 'node:crypto'

export const sha256 = (key: string): Buffer => createHash('sha256').update(key).digest()

/** Keys, each opening something. They are held as SHA-256 hashes alone. */
export class Keyring<T> {
  private readonly held: { hash: Buffer; opens: T }[] = []
  private readonly known = new Set<string>()

  /** @returns false when the key is there already */
  add(hash: Buffer, opens: T): boolean {
    if (this.known.has(hash.toString('hex'))) return false
    this.known.add(hash.toString('hex'))
    this.held.push({ hash, opens })
    return true
  }

  /** All keys are compared, whichever it is, so that the time tells nothing of them. */
  find(key: string): T | undefined {
    const given = sha256(key)
    return this.held.filter(({ hash }) => timingSafeEqual(hash, given))[0]?.opens
  }
}
