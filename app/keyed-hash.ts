import { createHmac, timingSafeEqual } from 'node:crypto'

/** 128 bits of an HMAC-SHA-256 in base64url, 22 characters. Without the key, it does not reveal the text. */
export function keyedHash(key: string | Buffer, text: string): string {
  return createHmac('sha256', key).update(text).digest().subarray(0, 16).toString('base64url')
}

/** Compares in constant time. */
export function sameText(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)]
  return one.length === other.length && timingSafeEqual(one, other)
}
