import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ConfigError, check, parseJson } from '../check.js'
import { problem } from '../problem.js'
import { CHANNELS, type Channel, type Message } from '../senders/sender.js'
import { isOfCodes, mistakesOfCodes } from './codes.js'
import { mistakesOf } from './mistakes.js'
import { type Given, readParams } from './params.js'
import { type Template, type TemplateFiles, TemplatesSchemas, type Words } from './schema.js'
import { MAX_SEGMENTS, segmentsWithin } from './segments.js'
import { fillWords } from './words.js'

/** A template with its parameters filled in: a message without its recipient. */
type Rendered = Omit<Message, 'channel' | 'to'>

export interface Templates {
  /** The names of parameters of each SMS template in each language, such as `captcha.en`. */
  readonly smsParameters: ReadonlyMap<string, readonly string[]>
  /** The templates that callers may name: all but those of codes. */
  offered(channel: Channel): Readonly<Record<string, Template>>
  /** The templates of codes: `captcha`, and those of purposes whose codes are bound to params. */
  ofCodes(channel: Channel): Readonly<Record<string, Template>>
  /**
   * The languages of a template. The first is the fallback, for those who ask for none of them.
   * @throws a problem (422): TEMPLATE_UNKNOWN
   */
  localesOf(channel: Channel, name: string): string[]
  /**
   * Fills in a template, in one of its languages.
   * @param given values of a caller
   * @param own values of the API itself
   * @throws a problem (422): TEMPLATE_UNKNOWN, PARAMS_INVALID, TEXT_TOO_LONG
   */
  render(channel: Channel, name: string, locale: string, given: Given, own?: Given): Rendered
  /** The same for a name that a caller gives, which must be an offered template. */
  renderOffered(channel: Channel, name: string, locale: string, given: Given): Rendered
}

/**
 * Checks templates and makes them ready for use.
 * @param fallback the language that each template must have
 * @throws ConfigError with the path of each mistake
 */
export function templatesOf(files: TemplateFiles, fallback = 'en'): Templates {
  const mistakes: string[] = []
  for (const channel of CHANNELS) {
    check(TemplatesSchemas[channel], files[channel], `templates.${channel}`)
    for (const [name, template] of Object.entries(files[channel])) {
      const found = mistakesOf(channel, template, fallback)
      mistakes.push(...found.map(mistake => `templates.${channel}.${name}.${mistake}`))
    }
    mistakes.push(...mistakesOfCodes(files[channel]).map(mistake => `templates.${channel}${mistake}`))
  }
  if (mistakes.length > 0) throw new ConfigError(mistakes.join('\n'))

  const those = (are: (name: string) => boolean): TemplateFiles => ({
    sms: only(files.sms, are),
    mail: only(files.mail, are)
  })
  const ofCodes = those(isOfCodes)
  const offered = those(name => !isOfCodes(name))
  const find = (from: TemplateFiles, channel: Channel, name: string): Template => {
    const template = Object.hasOwn(from[channel], name) ? from[channel][name] : undefined
    if (template === undefined) throw unknown(name, offered[channel])
    return template
  }
  const renderOf = (from: TemplateFiles) => {
    return (channel: Channel, name: string, locale: string, given: Given, own?: Given): Rendered => {
      const rendered = render(name, find(from, channel, name), locale, given, own)
      return channel === 'sms' ? { ...rendered, segments: segmentsOf(rendered.text) } : rendered
    }
  }
  return {
    smsParameters: new Map(
      Object.entries(files.sms).flatMap(([name, { params, locales }]) =>
        Object.keys(locales).map((locale): [string, string[]] => [`${name}.${locale}`, Object.keys(params)])
      )
    ),
    offered: channel => offered[channel],
    ofCodes: channel => ofCodes[channel],
    localesOf: (channel, name) => [
      ...new Set([fallback, ...Object.keys(find(files, channel, name).locales)])
    ],
    render: renderOf(files),
    renderOffered: renderOf(offered)
  }
}

/**
 * Loads all templates from a folder, in which each channel has its file.
 * @param folder TEMPLATES_DIR; the app's own when left out
 * @param fallback LOCALE: the language that each template must have
 * @throws ConfigError that says what is wrong, and where
 */
export function loadTemplates(
  folder = fileURLToPath(new URL('.', import.meta.url)),
  fallback?: string
): Templates {
  const read = (name: string) => {
    try {
      return parseJson(readFileSync(join(folder, name)))
    } catch (error) {
      throw new ConfigError(`${name} of TEMPLATES_DIR cannot be read: ${(error as Error).message}`)
    }
  }
  return templatesOf({ sms: read('sms.json'), mail: read('mail.json') }, fallback)
}

function render(name: string, template: Template, locale: string, given: Given, own?: Given): Rendered {
  const { values, flaws } = readParams(template.params, given, own)
  if (flaws.length > 0) {
    throw problem(422, 'PARAMS_INVALID', 'The parameters do not fit the template {template}.', {
      template: name,
      errors: flaws
    })
  }
  return {
    template: name,
    locale,
    params: values,
    ...fillWords(template.locales[locale] as Words, values, locale)
  }
}

function segmentsOf(text: string): number {
  const segments = segmentsWithin(text)
  if (segments !== undefined) return segments
  throw problem(422, 'TEXT_TOO_LONG', 'The text takes more than {limit} SMS.', { limit: MAX_SEGMENTS })
}

function unknown(template: string, offered: object) {
  return problem(422, 'TEMPLATE_UNKNOWN', 'There is no template {template} here. Use one of: {known}.', {
    template,
    known: Object.keys(offered)
  })
}

function only<T>(record: Record<string, T>, are: (name: string) => boolean): Record<string, T> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => are(name)))
}
