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

  /**
   * The time tells nothing of them: a `Map` compares texts, here those of hashes, only where their sums agree, which are made
   * under a seed of this process.
   */
  find(key: string): T | undefined {
    return this.held.get(sha256(key).toString('hex'))
  }
}
