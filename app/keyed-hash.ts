import { createHmac, timingSafeEqual } from 'node:crypto'

/** 128 bits of an HMAC-SHA-256 in base64url, 22 characters: stands for a text, and does not tell it without the key. */
export function keyedHash(key: string | Buffer, text: string): string {
  return createHmac('sha256', key).update(text).digest().subarray(0, 16).toString('base64url')
}

/** Whether two texts have one hash; how long that takes tells nothing of either. */
export function sameHash(key: Buffer, one: string, other: string): boolean {
  return timingSafeEqual(Buffer.from(keyedHash(key, one)), Buffer.from(keyedHash(key, other)))
}
