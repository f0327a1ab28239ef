import { hash } from 'node:crypto'

/** In hexadecimal digits, lower case. */
export const sha256 = (text: string): string => hash('sha256', text)
