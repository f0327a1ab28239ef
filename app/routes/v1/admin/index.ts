import type { FastifyPluginAsync } from 'fastify'
import type { Clock } from '../../../clock.js'
import type { Recipient } from '../../../recipient.js'
import { adminOnly } from './key.js'
import lists from './lists.js'
import lookup from './lookup.js'
import policy from './policy.js'

export interface AdminOptions {
  adminKey: string
  clock: Clock
  /** Reads the recipient of a body. @throws a problem (422) */
  recipientOf: (body: { phone?: string; email?: string }) => Recipient
  /** Puts the policy file in force. @throws what is wrong with it, with its path */
  reloadPolicy: (actor: string) => Promise<{ rules: number; purposes: number }>
}

/** For operators, under a key of their own. Recipients come in bodies: an address is logged on its way. */
const admin: FastifyPluginAsync<AdminOptions> = async (
  fastify,
  { adminKey, clock, recipientOf, reloadPolicy }
) => {
  fastify.decorateRequest('actor', null)
  fastify.addHook('preParsing', adminOnly(adminKey))
  fastify.addHook('onSend', async (_request, reply) => void reply.header('cache-control', 'no-store'))
  await fastify.register(lookup, { recipientOf, clock })
  await fastify.register(lists, { recipientOf })
  await fastify.register(policy, { reloadPolicy })
}

export default admin
