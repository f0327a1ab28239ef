import type { FastifyPluginAsync } from 'fastify'
import type { AdminEvent } from '../../../audit/event.js'
import { adminOnly } from './key.js'
import lists from './lists.js'
import lookup from './lookup.js'
import reload from './reload.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operator's action on this route, for the audit trail. */
    action?: AdminEvent['action']
  }
  interface FastifyRequest {
    /** The operator, by the first 8 hexadecimal digits of the key's hash; null for everybody else. */
    actor: string | null
    /** Further members of the audit event; null until the handler has set them. */
    audited: Pick<AdminEvent, 'recipientHash' | 'purpose' | 'reason' | 'until'> | null
  }
}

/**
 * The admin API, for operators with a key of their own. Recipients are named in bodies, since URLs are logged on their
 * way. An operator may look up and block a recipient to whom no message could be sent now.
 */
const admin: FastifyPluginAsync<{ adminKey: string }> = async (fastify, { adminKey }) => {
  fastify.decorateRequest('actor', null)
  fastify.decorateRequest('audited', null)
  fastify.addHook('preParsing', adminOnly(adminKey))
  fastify.addHook('onSend', async (request, reply) => {
    const { actor, audited, routeOptions } = request
    const { action } = routeOptions.config
    if (actor === null || action === undefined) return
    // Written when the request is answered, so that it is written once: a handler that is cut off goes on.
    const outcome = reply.statusCode < 400 ? 'done' : 'failed'
    fastify.audit({ event: 'admin', action, actor, outcome, ...audited }, request)
  })
  await fastify.register(lookup)
  await fastify.register(lists)
  await fastify.register(reload)
}

export default admin
