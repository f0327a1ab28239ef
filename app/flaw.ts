import { en } from './locales/en.js'
import { fill } from './locales/fill.js'

/** One thing that is wrong with a request: an entry of a problem's `errors` (RFC 9457, section 3). */
export interface Flaw {
  /** Where it is wrong, as a JSON pointer in a URI fragment (RFC 6901, section 6). */
  pointer: string
  /** What is wrong; the same in every language. */
  code: string
  /** What is wrong, in words. */
  detail: string
  [member: string]: unknown
}

export type FlawCode = keyof typeof en.flaws

/** @param more members that the words name, as in `{ limit: 32 }` */
export function flaw(pointer: string, code: FlawCode, more: object = {}): Flaw {
  return { pointer, code, detail: fill(en.flaws[code], more), ...more }
}

/** The `errors` of a problem with a single flaw; none without a pointer, when the flaw is not in a body. */
export function errorsAt(pointer: string | undefined, code: FlawCode, more?: object): { errors?: Flaw[] } {
  return pointer === undefined ? {} : { errors: [flaw(pointer, code, more)] }
}

/** The pointer to a member. */
export function pointerTo(parent: string, name: string): string {
  // A lone surrogate has no UTF-8.
  const wellFormed = name.replace(/\p{Surrogate}/gu, '\ufffd')
  const escaped = wellFormed.replaceAll('~', '~0').replaceAll('/', '~1')
  // The one character that encodeURI leaves, though no fragment may hold it (RFC 3986, section 3.5).
  return `${parent}/${encodeURI(escaped).replaceAll('#', '%23')}`
}
