import type { FastifyRequest } from 'fastify'
import { costOf, priceOf } from '../audit/cost.js'
import type { Message } from '../senders/sender.js'
import { codeTemplate } from '../templates/codes.js'
import type { Given } from '../templates/params.js'
import type { Asked, Issued } from './captchas.js'
import { longestCode, minutesOf, secondsOf } from './code.js'
import { localeOfCode, purposeOf } from './prepare.js'
import type { Kept } from './records.js'

interface AskedMessage extends Pick<Asked, 'channel' | 'to' | 'purpose'> {
  /** Left out: the language that `Accept-Language` asks for. */
  locale?: string | undefined
  params?: Given | undefined
  /** Of a resend: the code as it stood before. */
  kept?: Pick<Kept, 'sender' | 'perhaps'>
}

/**
 * Renders the message of a code by the policy and the templates in force, which may have been replaced since the code
 * was requested.
 * @throws a problem (422): PURPOSE_UNKNOWN when the policy has lost the purpose, PARAMS_INVALID, TEXT_TOO_LONG
 */
export function messageOf(
  request: FastifyRequest,
  asked: AskedMessage,
  { code, lifeMs }: Pick<Issued, 'code' | 'lifeMs'>
): Message {
  const { policy, templates } = request.server
  const { channel, purpose, to, params = {} } = asked
  const locale = localeOfCode(request, asked, asked.locale)
  const { action, params: bound } = purposeOf(policy, purpose)
  const own = { code, action: action[locale], minutes: minutesOf(lifeMs) }
  const rendered = templates.render(channel, codeTemplate(purpose, bound), locale, params, own)
  const formerSender = asked.kept?.sender || asked.kept?.perhaps
  return {
    channel,
    to,
    ...rendered,
    lifetimeSeconds: secondsOf(lifeMs),
    ...(formerSender && { formerSender })
  }
}

/**
 * Notes on the request what the message costs, and the values that the code is to be bound to, if any, as the message
 * shows them. Called before the send is counted: it renders the longest message that the code can have, so that one
 * that cannot be rendered is refused here.
 * @throws a problem (422): PARAMS_INVALID unless exactly the params that the purpose names are given, TEXT_TOO_LONG
 */
export function prepareText(request: FastifyRequest, asked: AskedMessage): void {
  const { policy } = request.server
  const { params, segments = 1 } = messageOf(request, asked, longestCode(policy, asked.purpose))
  const names = policy.purposes[asked.purpose]?.params
  request.price = priceOf(costOf(asked.channel, asked.to, segments, policy.prices))
  request.bound = names ? Object.fromEntries(names.map(name => [name, params[name] as string])) : null
}
