import type { FastifyRequest } from 'fastify'
import type { Message } from '../senders/sender.js'
import type { Asked, Issued } from './captchas.js'
import { minutesOf } from './code.js'
import { localeOfCode } from './prepare.js'

/** The message of a code, by the policy and the templates in force: those that it was asked for under may be gone. */
export function messageOf(
  request: FastifyRequest,
  asked: Pick<Asked, 'channel' | 'to' | 'purpose' | 'locale'>,
  { code, lifeMs }: Pick<Issued, 'code' | 'lifeMs'>
): Message {
  const { policy, templates } = request.server
  const { channel, purpose, to } = asked
  const locale = localeOfCode(request, asked, asked.locale)
  const action = policy.purposes[purpose]?.action[locale] ?? purpose
  const own = { code, action, minutes: minutesOf(lifeMs) }
  return { channel, to, ...templates.render(channel, 'captcha', locale, {}, own) }
}
