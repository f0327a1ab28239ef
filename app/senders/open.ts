import { ConfigError } from '../check.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config-schema.js'
import { boundNames } from '../templates/codes.js'
import { guarded } from './breaker.js'
import { chain } from './chain.js'
import { readChoice } from './choice.js'
import { none } from './none.js'
import { Outbox } from './outbox.js'
import { openProvider } from './provider.js'
import { providers } from './providers.js'
import type { Channel, Sender, Senders, Undelivered } from './sender.js'
import { readTemplateCodes } from './template-codes.js'

interface Opened {
  senders: Senders
  /** The outbox, if there is one. */
  outbox: Outbox | null
}

/**
 * Opens the senders that the configuration chooses. Without a choice, mail goes by SMTP if SMTP_URL is set. All else
 * goes to the outbox, but to no sender in production or with DEV_OUTBOX=off.
 * @throws ConfigError that names the variable at fault, or says what to install
 */
export async function openSenders(
  config: Config,
  clock: Clock,
  print: (line: string) => void,
  passedOn: (channel: Channel, error: Undelivered) => void = () => {}
): Promise<Opened> {
  const hasOutbox = config.NODE_ENV !== 'production' && config.DEV_OUTBOX === 'on'
  const outbox = hasOutbox ? new Outbox(clock, print) : null
  const preset = hasOutbox ? 'outbox' : 'none'
  const opened = new Map<string, Promise<Sender>>()

  const openOne = async (name: string, channel: Channel, variable: string): Promise<Sender> => {
    if (name === 'none') return none
    if (name === 'outbox' && outbox !== null) return outbox
    const chosen = Object.hasOwn(providers, name) ? providers[name] : undefined
    if (chosen === undefined || !chosen.channels.includes(channel)) {
      const names = Object.keys(providers).filter(each => providers[each]?.channels.includes(channel))
      if (outbox !== null) names.push('outbox')
      throw new ConfigError(`${variable} names ${name}; for ${channel} there are ${names.join(', ')}, none.`)
    }
    const guard = async () =>
      guarded(await openProvider(chosen, `${variable} names ${name}`, config, clock), clock)
    const sender = opened.get(name) ?? guard()
    opened.set(name, sender)
    return sender
  }

  const openChannel = async (channel: Channel, variable: string, text: string): Promise<Sender> => {
    const steps = readChoice(text)
    const names = steps.flat().map(({ name }) => name)
    const twice = names.find((name, index) => names.indexOf(name) !== index)
    if (twice !== undefined) throw new ConfigError(`${variable} names ${twice} twice.`)
    const chained = []
    for (const step of steps) {
      const links = []
      for (const { name, weight } of step) {
        links.push({ sender: await openOne(name, channel, variable), weight })
      }
      chained.push(links)
    }
    return chain(chained, config.RESEND_ORDER === 'others-first', error => passedOn(channel, error))
  }

  const mail = config.MAIL_SENDERS ?? (config.SMTP_URL === undefined ? preset : 'smtp')
  const senders: Senders = {
    sms: await openChannel('sms', 'SMS_SENDERS', config.SMS_SENDERS ?? preset),
    mail: await openChannel('mail', 'MAIL_SENDERS', mail)
  }
  return { senders, outbox }
}

/**
 * Checks the template codes of the chosen providers against the templates.
 * @param parameters the names of parameters of each template in each language, such as `captcha.zh`
 * @throws ConfigError that names the variable, and the template or parameter at fault
 */
export function checkCodes(config: Config, parameters: ReadonlyMap<string, readonly string[]>): void {
  for (const { variable, text, codes } of chosenCodes(config)) {
    if (codes.size < text.split(',').length) throw new ConfigError(`${variable} names a template twice.`)
    for (const [template, { names }] of codes) {
      const known = parameters.get(template)
      if (known === undefined) {
        const right = `is no template and language that there is; known: ${[...parameters.keys()].join(', ')}`
        throw new ConfigError(`${variable} names ${template}, which ${right}.`)
      }
      const hidden = names.length > 0 && boundNames(template, known).find(name => !names.includes(name))
      if (hidden)
        throw new ConfigError(`${variable} leaves out ${hidden} of ${template}, which the message must show.`)
      const stray = names.find(name => !known.includes(name))
      if (stray === undefined) continue
      const right = known.length === 0 ? 'it takes none' : `it takes ${known.join(', ')}`
      throw new ConfigError(`${variable} names the parameter ${stray} of ${template}; ${right}.`)
    }
  }
}

/**
 * Warnings that say for which templates a chosen provider has no code. For those, the provider is passed over.
 * @param templates such as `captcha.zh`
 */
export function missingCodes(config: Config, templates: readonly string[]): string[] {
  return chosenCodes(config).flatMap(({ variable, codes }) => {
    const missing = templates.filter(template => !codes.has(template))
    if (missing.length === 0) return []
    const names = missing.join(', ')
    return [`${variable} has no code for ${names}: what needs it goes by another sender, if there is one`]
  })
}

/** The template codes of each chosen provider that takes them: the text of its variable, and the codes read from it. */
function chosenCodes(config: Config) {
  const chosen = readChoice(config.SMS_SENDERS ?? '').flat()
  return chosen.flatMap(({ name }) => {
    const variable = providers[name]?.templates
    if (variable === undefined) return []
    const text = String(config[variable] ?? '')
    return [{ variable, text, codes: readTemplateCodes(text) }]
  })
}
