import type { FastifyRequest } from 'fastify'
import { accountOf } from './accounts/account.js'
import { notServed } from './audit/refusal.js'
import { errorsAt } from './flaw.js'
import { problem } from './problem.js'
import { countryOf, NO_COUNTRY } from './recipient.js'

/**
 * Checks that the policy in force and the account of the request serve the recipient's country. If not, the audit trail
 * records a refusal.
 * @param pointer JSON pointer of the recipient in the body, if the body holds it
 * @throws a problem (422) when the country is not served
 */
export function checkServed(request: FastifyRequest, pointer?: string): void {
  const { recipient, server } = request
  const country = recipient && countryOf(recipient)
  if (country === null) return
  const byPolicy = server.policy.countries?.includes(country) ?? country !== NO_COUNTRY
  if (byPolicy && (accountOf(request).countries?.includes(country) ?? true)) return
  server.audit(notServed(request), request)
  const detail = 'Messages are not sent to numbers of this country.'
  throw problem(422, 'COUNTRY_NOT_SERVED', detail, errorsAt(pointer, 'UNSENDABLE'))
}
