import { createHash } from 'node:crypto'

export const sha256 = (key: string): Buffer => createHash('sha256').update(key).digest()

/** Keys, each opening something. They are held as SHA-256 hashes alone. */
export class Keyring<T> {
  private readonly held = new Map<string, T>()

  /** @returns false when the key is there already */
  add(hash: Buffer, opens: T): boolean {
    const name = hash.toString('hex')
    if (this.held.has(name)) return false
    this.held.set(name, opens)
    return true
  }

  /** By its hash. The time tells nothing of a key: nobody chooses its hash, nor knows the seed by which a `Map` looks for it. */
  find(key: string): T | undefined {
    return this.held.get(sha256(key).toString('hex'))
  }
}
