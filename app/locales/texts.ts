import type { Locale } from './locale.js'
import { zh } from './zh.js'

/** The words of a language, in place of the English ones. `{name}` stands for a member of the problem or flaw. */
export interface Texts {
  /** Between the values of a list. */
  comma: string
  /** By status, and by code of a problem with a title of its own. */
  titles: Readonly<Record<number | string, string | undefined>>
  /** By code of a problem. */
  problems: Readonly<Record<string, string | undefined>>
  /** By code of a flaw: one entry of `errors`. */
  flaws: Readonly<Record<string, string | undefined>>
}

export const texts: Readonly<Record<Exclude<Locale, 'en'>, Texts>> = { zh }
