import type { Flaw } from '../flaw.js'
import type { ProblemDocument } from '../problem.js'
import { fill } from './fill.js'
import type { Locale, Texts } from './locale.js'
import { zh } from './zh.js'

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
      const words = flaws[flaw.code]
      return words === undefined ? flaw : { ...flaw, detail: fill(words, flaw, comma) }
    })
  }
  return translated
}
