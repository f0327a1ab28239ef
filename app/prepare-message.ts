import type { FastifyRequest } from 'fastify'
import { accountOf, mayUse } from './accounts/account.js'
import { costOf, priceOf } from './audit/cost.js'
import { localeOf } from './plugins/locale.js'
import { recipientOf } from './recipient.js'
import { checkServed } from './served.js'

interface Asked {
  /** The number of an SMS. */
  phone?: string
  /** The address of a mail. */
  to?: string
  template: string
  params?: Record<string, unknown>
  locale?: string
}

/**
 * Prepares the message that an account wants to send, before it is counted. `request.message` is what rules read and
 * what is sent.
 * @throws a problem (403, 422) when it cannot be sent
 */
export function prepareMessage(
  request: FastifyRequest,
  { phone, to, template, params = {}, locale }: Asked
): void {
  const { server } = request
  const recipient = recipientOf(
    { phone, email: to },
    // A mail names its address `to`.
    { region: server.region, ...(to !== undefined && { pointer: '#/to' }) }
  )
  const { channel } = recipient
  const { templates } = server
  const language = localeOf(request, templates.localesOf(channel, template), locale)
  const rendered = templates.renderOffered(channel, template, language, params)
  mayUse(accountOf(request), 'templates', template)
  request.recipient = recipient
  request.price = priceOf(costOf(channel, recipient.to, rendered.segments ?? 1, server.policy.prices))
  request.message = { channel, to: recipient.to, ...rendered }
  checkServed(request, '#/phone')
}
