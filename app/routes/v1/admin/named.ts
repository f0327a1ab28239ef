import type { FastifyRequest } from 'fastify'
import { checkOne, type Recipient, recipientOf } from '../../../recipient.js'

const NAMES = ['phone', 'email', 'recipientHash'] as const

interface Named {
  recipientHash: string
  /** Null where nothing but the hash is known. */
  recipient: Recipient | null
}

/**
 * Whom an operator names, in clear or by the hash alone; the audit trail is to name them, too.
 * @throws a problem (422) when it is not one recipient, or no message can go there
 */
export function named(request: FastifyRequest, body: { [name in (typeof NAMES)[number]]?: string }): Named {
  const { server } = request
  const { recipientHash } = body
  checkOne(body, NAMES)
  if (recipientHash !== undefined) {
    request.told = { recipientHash }
    return { recipientHash, recipient: null }
  }
  const recipient = recipientOf(body, { region: server.region })
  request.recipient = recipient
  return { recipientHash: server.recipientHash(recipient), recipient }
}
