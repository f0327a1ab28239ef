/** The languages that texts are there in, as primary subtags of BCP 47. */
export const LOCALES = ['en', 'zh'] as const
export type Locale = (typeof LOCALES)[number]

/** The locale for a language tag (RFC 4647, section 3.4: lookup): `zh-TW` and `zh-Hans-CN` are `zh`. */
export function lookUp(tag: string): Locale | undefined {
  const [language] = tag.toLowerCase().split('-', 1)
  return LOCALES.find(locale => locale === language)
}
