import { hash } from 'node:crypto'

/** In hexadecimal digits, lower case. */
export const sha256 = (key: string): string => hash('sha256', key)

/** Keys, each opening something. They are held as SHA-256 hashes alone. */
export class Keyring<T> {
  private readonly held = new Map<string, T>()

  /** @returns false when the key is there already */
  add(hash: string, opens: T): boolean {
    if (this.held.has(hash)) return false
    this.held.set(hash, opens)
    return true
  }

  /** By its hash. The time tells nothing of a key: nobody chooses its hash, nor knows the seed by which a `Map` looks for it. */
  find(key: string): T | undefined {
    return this.held.get(sha256(key))
  }
}
