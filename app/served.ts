import type { FastifyRequest } from 'fastify'
import { notServed } from './audit/refusal.js'
import { errorsAt } from './flaw.js'
import { problem } from './problem.js'
import { countryOf, NO_COUNTRY } from './recipient.js'

/**
 * Holds the recipient of a request against the countries that are served now; one that is not among them is a refusal of
 * the audit trail.
 * @param pointer where it stands in the body, if it does
 * @throws a problem (422)
 */
export function checkServed(request: FastifyRequest, pointer?: string): void {
  const { recipient, server } = request
  const { countries } = server.policy
  const country = recipient && countryOf(recipient)
  if (country === null || (countries?.includes(country) ?? country !== NO_COUNTRY)) return
  server.audit(notServed(request), request)
  const detail = 'Messages are not sent to numbers of this country.'
  throw problem(422, 'COUNTRY_NOT_SERVED', detail, errorsAt(pointer, 'UNSENDABLE'))
}
