import type { Flaw } from '../flaw.js'
import type { ProblemDocument } from '../problem.js'
import { fill } from './fill.js'
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

/** Translates the words of a problem. Members, codes and types stay; words without a translation stay English. */
export function translate(document: ProblemDocument, locale: Locale): ProblemDocument {
  if (locale === 'en') return document
  const { comma, titles, problems, flaws } = texts[locale]
  const { title, status, detail, code = '', errors } = document
  const translated: ProblemDocument = { ...document, title: titles[code] ?? titles[status] ?? title }
  const text = problems[code]
  if (text !== undefined && detail !== undefined) translated.detail = fill(text, document, comma)
  if (Array.isArray(errors)) {
    translated.errors = errors.map((flaw: Flaw) => {
      const text = flaws[flaw.code]
      return text === undefined ? flaw : { ...flaw, detail: fill(text, flaw, comma) }
    })
  }
  return translated
}
