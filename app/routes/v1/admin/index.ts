import type { FastifyPluginAsync } from 'fastify'
import type { AdminEvent } from '../../../audit/event.js'
import { adminOnly } from './key.js'
import lists from './lists.js'
import lookup from './lookup.js'
import reload from './reload.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What an operator does here, for the audit trail. */
    action?: AdminEvent['action']
  }
  interface FastifyRequest {
    /** The operator, by the first 8 hexadecimal digits of the key's hash; null for everybody else. */
    actor: string | null
    /** What the audit trail is to tell of the act besides; null until the handler has found it out. */
    told: Pick<AdminEvent, 'recipientHash' | 'purpose' | 'reason' | 'until'> | null
  }
}

/**
 * For operators, under a key of their own. Recipients come in bodies: an address is logged on its way. An operator may look
 * up and block whomever a message could not go to now.
 */
const admin: FastifyPluginAsync<{ adminKey: string }> = async (fastify, { adminKey }) => {
  fastify.decorateRequest('actor', null)
  fastify.decorateRequest('told', null)
  fastify.addHook('preParsing', adminOnly(adminKey))
  fastify.addHook('onSend', async (request, reply) => {
    const { actor, told, routeOptions } = request
    const { action } = routeOptions.config
    if (actor === null || action === undefined) return
    // Where it is answered, so that it is told once: a handler that is cut off goes on.
    const outcome = reply.statusCode < 400 ? 'done' : 'failed'
    fastify.audit({ event: 'admin', action, actor, outcome, ...told }, request)
  })
  await fastify.register(lookup)
  await fastify.register(lists)
  await fastify.register(reload)
}

export default admin
