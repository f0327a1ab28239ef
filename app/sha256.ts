import { hash } from 'node:crypto'

/** The SHA-256 hash in hexadecimal digits, lower case. */
export const sha256 = (text: string): string => hash('sha256', text)
