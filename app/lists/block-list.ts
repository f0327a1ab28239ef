import type { FastifyRequest } from 'fastify'
import type { Filter } from '../../plugin/index.js'
import type { Config } from '../config-schema.js'
import type { Lists } from './lists.js'

/**
 * A filter that refuses blocked recipients, and notes on the request how its recipient stands. A concealed request
 * passes even so: its handler answers as usual and sends nothing. While the store of the lists does not answer, every
 * request passes, unless `ON_STORE_ERROR` is `deny`.
 */
export function blockList(lists: Lists, { ON_STORE_ERROR }: Pick<Config, 'ON_STORE_ERROR'>): Filter {
  return {
    name: 'block-list',
    async check(request) {
      try {
        await noteStanding(request, lists)
      } catch (error) {
        if (ON_STORE_ERROR === 'deny') throw error
        request.log.warn({ err: (error as Error).cause ?? error }, 'passed without the block list')
        return
      }
      if (request.standing === 'blocked' && !request.concealed) return { allowed: false }
    }
  }
}

/** Notes on a request how its recipient stands, if it has one. */
export async function noteStanding(request: FastifyRequest, lists: Lists): Promise<void> {
  const { recipient, server } = request
  const entry = recipient && (await lists.get(server.recipientHash(recipient)))
  request.standing = entry?.standing ?? null
}
