import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import type { Filter } from '../../plugin/index.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config-schema.js'
import { keyedHash } from '../keyed-hash.js'
import { blockList } from '../lists/block-list.js'
import type { Lists, Standing } from '../lists/lists.js'
import { MemoryLists } from '../lists/memory-lists.js'
import { RedisLists } from '../lists/redis-lists.js'

declare module 'fastify' {
  interface FastifyInstance {
    lists: Lists
    /** For the limit plugin's `filters`; routes name it `block-list`. */
    blockList: Filter
  }
  interface FastifyRequest {
    /** How the recipient stands; null until the filter `block-list` has asked, and for a recipient on no list. */
    standing: Standing | null
  }
}

interface Options {
  config: Pick<Config, 'ON_STORE_ERROR' | 'STORE_TIMEOUT'>
  /** The secret under which recipients are hashed. */
  secret: string
  clock: Clock
}

/** The block and allow lists, shared by all instances if there is a Redis. */
const lists: FastifyPluginAsync<Options> = async (fastify, { config, secret, clock }) => {
  const opened: Lists = fastify.hasDecorator('redis')
    ? new RedisLists(fastify.redis, keyedHash(secret, 'lists'), config.STORE_TIMEOUT / 2)
    : new MemoryLists(clock)
  fastify.decorate('lists', opened)
  fastify.decorate('blockList', blockList(opened, config))
  fastify.decorateRequest('standing', null)
}

export default fp(lists, { name: 'lists', dependencies: ['redis', 'requests', 'audit'] })
