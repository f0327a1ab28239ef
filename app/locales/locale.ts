/** The languages of the API's own words, its errors. Messages are in the languages of their templates. */
export const LOCALES = ['en', 'zh'] as const
export type Locale = (typeof LOCALES)[number]

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

/** The canonical form of a language tag (BCP 47), such as `he-IL` for `iw-il`; undefined for a text that is no tag. */
function canonical(tag: string): string | undefined {
  try {
    return Intl.getCanonicalLocales(tag)[0]
  } catch {
    return undefined
  }
}

/**
 * Finds the best known language for a tag (RFC 4647, section 3.4: lookup): `zh-Hant-HK`, else `zh-Hant`, else `zh`.
 * @param known tags in canonical form
 */
export function lookUp<L extends string>(tag: string, known: readonly L[]): L | undefined {
  const parts = (canonical(tag) ?? tag.toLowerCase()).split('-')
  for (; parts.length > 0; parts.pop()) {
    const range = parts.join('-')
    const found = known.find(each => each === range)
    if (found !== undefined) return found
  }
  return undefined
}

/** What is wrong with a tag that an operator wrote, if anything: each language has one spelling. */
export function tagMistake(tag: string): string | undefined {
  const right = canonical(tag)
  // Words such as "german" would pass for language names of five to eight letters, of which BCP 47 has none.
  if (right === undefined || !/^[a-z]{2,3}(-|$)/.test(right))
    return 'is no language tag as in "de" or "pt-BR" (BCP 47)'
  return right === tag ? undefined : `must be spelled ${JSON.stringify(right)}`
}
