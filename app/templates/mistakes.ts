import { quoted } from '../check.js'
import { tagMistake } from '../locales/locale.js'
import type { Channel } from '../senders/sender.js'
import { examplesOf, readParams } from './params.js'
import type { Param, Template, Words } from './schema.js'
import { countSegments, MAX_SEGMENTS } from './segments.js'
import { fillWords } from './words.js'

const PLACEHOLDER = /\{(\w+)\}/g
const namesIn = (words: string) => [...words.matchAll(PLACEHOLDER)].map(([, name = '']) => name)

/**
 * The mistakes in a template that its schema cannot find, each with its path.
 * @param fallback the language that the template must have
 */
export function mistakesOf(channel: Channel, template: Template, fallback: string): string[] {
  const { params, locales } = template
  const wrong = Object.entries(params).flatMap(([name, param]) =>
    ofParam(param).map(mistake => `params.${name}${mistake}`)
  )
  for (const [locale, words] of Object.entries(locales)) {
    const mistake = tagMistake(locale)
    const found = mistake === undefined ? ofWords(words, params) : [` ${mistake}.`]
    wrong.push(...found.map(each => `locales.${locale}${each}`))
  }
  if (!Object.hasOwn(locales, fallback)) wrong.push(`locales lacks ${fallback}, the language of LOCALE.`)
  return wrong.length === 0 && channel === 'sms' ? tooLong(template) : wrong
}

const BOUNDS = ['minimum', 'maximum'] as const
/** The members that say nothing of a type. */
const FOREIGN = { integer: ['maxLength', 'pattern'], string: BOUNDS, url: BOUNDS } as const
const CALLED = { integer: 'an integer', string: 'a string', url: 'a url' }

function ofParam(param: Param): string[] {
  const { type, maxLength, pattern, minimum, maximum, example } = param
  if (type === 'integer' && (minimum === undefined || maximum === undefined)) {
    return [' must have a minimum and a maximum.']
  }
  if (type !== 'integer' && maxLength === undefined) return [' must have a maxLength.']
  const foreign = FOREIGN[type].filter(name => param[name] !== undefined)
  if (foreign.length > 0) return foreign.map(name => `.${name} is not for ${CALLED[type]}.`)
  try {
    // By itself: "a)|(b" is none, but would be one within the parentheses of `whole`.
    if (pattern !== undefined) new RegExp(pattern, 'u')
  } catch {
    return [`.pattern (${quoted(pattern)}) must be a regular expression.`]
  }
  const { flaws } = readParams({ example: param }, { example })
  return flaws.map(({ detail }) => `.example (${quoted(example)}) ${detail}.`)
}

function ofWords({ subject = '', text, html }: Words, params: Record<string, Param>): string[] {
  const wrong: string[] = []
  const parts = { subject, text: [text].flat().join('\n'), html: html?.join('\n') }
  for (const [part, words] of Object.entries(parts)) {
    if (words === undefined) continue
    const named = new Set(namesIn(words))
    if (/[{}]/.test(words.replace(PLACEHOLDER, ''))) wrong.push(`.${part} has a brace that encloses no name.`)
    for (const name of named) {
      if (!Object.hasOwn(params, name)) wrong.push(`.${part} names {${name}}, which is no parameter.`)
    }
    // A subject may lack values. Text and HTML must each have all of them, since many readers see only one of the two.
    const lacking = part === 'subject' ? [] : Object.keys(params).filter(name => !named.has(name))
    for (const name of lacking) wrong.push(`.${part} lacks {${name}}.`)
  }
  for (const [tag] of (parts.html ?? '').matchAll(/<[^>]*\{[^>]*>?/g)) {
    if (!namesIn(tag).every(name => params[name]?.type === 'url')) {
      wrong.push(`.html has a value inside a tag (${tag}); only one of type url may stand there, in quotes.`)
    }
  }
  return wrong
}

/** The texts that take too many SMS with the examples of their parameters. */
function tooLong({ params, locales }: Template): string[] {
  return Object.entries(locales).flatMap(([locale, words]) => {
    const segments = countSegments(fillWords(words, examplesOf(params), locale).text)
    const much = `locales.${locale}.text takes ${segments} SMS with the examples of its parameters`
    return segments > MAX_SEGMENTS ? [`${much}; at most ${MAX_SEGMENTS} are allowed.`] : []
  })
}
