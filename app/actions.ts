import { longestCode, minutesOf } from './captcha/code.js'
import { ConfigError, quoted } from './check.js'
import type { Flaw } from './flaw.js'
import { tagMistake } from './locales/locale.js'
import type { Policy } from './policy-schema.js'
import type { ProblemError } from './problem.js'
import { CHANNELS } from './senders/sender.js'
import { codeTemplate } from './templates/codes.js'
import { examplesOf, readParams } from './templates/params.js'
import type { Param } from './templates/schema.js'
import type { Templates } from './templates/templates.js'

/** How the templates of codes take `action`. */
const ACTION: Param = { type: 'string', maxLength: 80, example: 'log in' }

/**
 * Checks that each purpose has words in the fallback language, and that all its words fit into the messages of a code.
 * @throws ConfigError that says what is wrong, and where
 */
export function checkActions(policy: Policy, { localesOf, ofCodes, render }: Templates): void {
  for (const [name, { action, params: bound = [] }] of Object.entries(policy.purposes)) {
    const template = codeTemplate(name, bound)
    const { code, lifeMs } = longestCode(policy, name)
    const params = { code, minutes: minutesOf(lifeMs) }
    const path = `policy.purposes.${name}.action`
    for (const [locale, words] of Object.entries(action)) checkWords(words, locale, path)
    for (const [channel, called] of [
      ['sms', 'SMS'],
      ['mail', 'mail']
    ] as const) {
      const [fallback = '', ...others] = localesOf(channel, template)
      const given = examplesOf(ofCodes(channel)[template]?.params ?? {}, bound)
      if (!Object.hasOwn(action, fallback))
        throw new ConfigError(`${path} lacks ${fallback}, the language of LOCALE.`)
      for (const locale of [fallback, ...others.filter(each => Object.hasOwn(action, each))]) {
        try {
          render(channel, template, locale, given, { ...params, action: action[locale] })
        } catch (error) {
          const at = `${path}.${locale} (${quoted(action[locale])})`
          throw new ConfigError(`${at} fits into no ${called} of a code. ${reasonOf(error as ProblemError)}`)
        }
      }
    }
  }
}

/** Warnings about actions in a language that the template of the code lacks: its messages go in another one. */
export function unspokenActions({ purposes }: Policy, { localesOf }: Templates): string[] {
  return Object.entries(purposes).flatMap(([name, { action, params }]) =>
    CHANNELS.flatMap(channel => {
      const template = codeTemplate(name, params)
      const texts = localesOf(channel, template)
      const without = Object.keys(action).filter(locale => !texts.includes(locale))
      const what = `policy.purposes.${name}.action has ${without.join(', ')}`
      return without.length === 0
        ? []
        : [`${what}, in which ${channel}.json has no text of ${template}: codes go out in another language`]
    })
  )
}

/** The message of a problem, with what is wrong with each parameter. */
function reasonOf({ message, problem }: ProblemError): string {
  const flaws = (problem?.errors ?? []) as Flaw[]
  return [message, ...flaws.map(({ pointer, detail }) => `${pointer} ${detail}.`)].join(' ')
}

function checkWords(words: string, locale: string, path: string): void {
  const at = `${path}.${locale} (${quoted(words)})`
  const mistake = tagMistake(locale)
  if (mistake !== undefined) throw new ConfigError(`${path}.${locale} ${mistake}.`)
  const [flaw] = readParams({ action: ACTION }, {}, { action: words }).flaws
  if (flaw !== undefined) throw new ConfigError(`${at} ${flaw.detail}.`)
  if (/[{}]/.test(words))
    throw new ConfigError(`${at} has a brace, which would stand in the message as it is.`)
}
