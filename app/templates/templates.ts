import { readFileSync } from 'node:fs'
import { SegmentedMessage } from 'sms-segments-calculator'
import { ConfigError, check, parseJson } from '../check.js'
import { LOCALES, type Locale } from '../locales/locale.js'
import { problem } from '../problem.js'
import type { Channel } from '../senders/sender.js'
import { mistakesOf } from './mistakes.js'
import { readParams, type Values } from './params.js'
import { type Template, type TemplateFiles, TemplatesSchemas } from './schema.js'
import { type Filled, fillWords } from './words.js'

/** A template with its parameters filled in. */
interface Rendered extends Filled {
  template: string
  locale: Locale
  /** As they stand in the text: `17` and `"17"` are the same. */
  params: Values
  /** How many SMS it takes (GSM 03.38 or UCS-2, 3GPP TS 23.040); each costs. */
  segments?: number
}

export interface Templates {
  /** The parameters of each SMS template in each language, as in `captcha.en`. */
  readonly smsParameters: ReadonlyMap<string, readonly string[]>
  /** What callers may name, with its parameters; `captcha` is the app's own. */
  offered(channel: Channel): Readonly<Record<string, Template>>
  /**
   * Fills in a template.
   * @throws a problem (422): TEMPLATE_UNKNOWN, PARAMS_INVALID, TEXT_TOO_LONG
   */
  render(channel: Channel, name: string, locale: Locale, params: object): Rendered
  /** The same for names that callers give: those that are offered. */
  renderOffered(channel: Channel, name: string, locale: Locale, params: object): Rendered
}

const OWN = 'captcha'
/** A longer SMS is a mistake more often than it is meant. */
const MAX_SEGMENTS = 3

/**
 * Checks templates and makes them ready.
 * @throws ConfigError with the path of each mistake
 */
export function templatesOf(files: TemplateFiles): Templates {
  const mistakes: string[] = []
  for (const channel of ['sms', 'mail'] as const) {
    check(TemplatesSchemas[channel], files[channel], `templates.${channel}`)
    for (const [name, template] of Object.entries(files[channel])) {
      const found = mistakesOf(template)
      if (found.length === 0 && channel === 'sms') found.push(...tooLong(template))
      mistakes.push(...found.map(mistake => `templates.${channel}.${name}.${mistake}`))
    }
    if (!Object.hasOwn(files[channel], OWN)) mistakes.push(`templates.${channel} lacks ${OWN}.`)
  }
  if (mistakes.length > 0) throw new ConfigError(mistakes.join('\n'))

  const offered: TemplateFiles = {
    sms: without(files.sms, OWN),
    mail: without(files.mail, OWN)
  }
  const renderOf = (from: TemplateFiles) => {
    return (channel: Channel, name: string, locale: Locale, params: object): Rendered => {
      const template = Object.hasOwn(from[channel], name) ? from[channel][name] : undefined
      if (template === undefined) throw unknown(name, offered[channel])
      const rendered = render(name, template, locale, params)
      return channel === 'sms' ? { ...rendered, segments: segmentsOf(rendered.text) } : rendered
    }
  }
  return {
    smsParameters: new Map(
      Object.entries(files.sms).flatMap(([name, { params }]) =>
        LOCALES.map((locale): [string, string[]] => [`${name}.${locale}`, Object.keys(params)])
      )
    ),
    offered: channel => offered[channel],
    render: renderOf(files),
    renderOffered: renderOf(offered)
  }
}

/**
 * The templates of the files in a folder, by default those beside this one.
 * @throws ConfigError that says what is wrong, and where
 */
export function loadTemplates(folder = new URL('.', import.meta.url)): Templates {
  const read = (name: string) => {
    try {
      return parseJson(readFileSync(new URL(name, folder)))
    } catch (error) {
      throw new ConfigError(`templates/${name} cannot be read: ${(error as Error).message}`)
    }
  }
  return templatesOf({ sms: read('sms.json'), mail: read('mail.json') })
}

function render(name: string, template: Template, locale: Locale, params: object): Rendered {
  const { values, flaws } = readParams(template.params, params as Record<string, unknown>)
  if (flaws.length > 0) {
    throw problem(422, 'PARAMS_INVALID', 'The parameters do not fit the template {template}.', {
      template: name,
      errors: flaws
    })
  }
  return { template: name, locale, params: values, ...fillWords(template.locales[locale], values, locale) }
}

/** The texts that take too many SMS, even with the examples of their parameters. */
function tooLong({ params, locales }: Template): string[] {
  const examples = Object.fromEntries(Object.entries(params).map(([name, { example }]) => [name, example]))
  return LOCALES.flatMap(locale => {
    const segments = countSegments(fillWords(locales[locale], examples, locale).text)
    const much = `locales.${locale}.text takes ${segments} SMS with the examples of its parameters`
    return segments > MAX_SEGMENTS ? [`${much}; at most ${MAX_SEGMENTS} are allowed.`] : []
  })
}

const countSegments = (text: string) => new SegmentedMessage(text).segmentsCount

function segmentsOf(text: string): number {
  const segments = countSegments(text)
  if (segments <= MAX_SEGMENTS) return segments
  throw problem(422, 'TEXT_TOO_LONG', 'The text takes {segments} SMS; at most {limit} are allowed.', {
    segments,
    limit: MAX_SEGMENTS
  })
}

function unknown(template: string, offered: object) {
  return problem(422, 'TEMPLATE_UNKNOWN', 'There is no template {template} here. Use one of: {known}.', {
    template,
    known: Object.keys(offered)
  })
}

function without<T>(record: Record<string, T>, name: string): Record<string, T> {
  return Object.fromEntries(Object.entries(record).filter(([key]) => key !== name))
}
