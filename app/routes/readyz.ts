import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import type { Cluster, Redis } from 'ioredis'
import { Type } from 'typebox'
import { problem } from '../problem.js'
import { problems } from '../schemas/problem.js'
import { withTimeout } from '../with-timeout.js'

/** Keys that never exist: two in each eighth of the slots of a cluster. */
const EVERYWHERE = Array.from({ length: 16 }, (_, i) => `captcha:${i}:ready`)

interface Options {
  /** Whether Redis is several, behind a proxy. */
  sharded: boolean
  /** How long Redis may take to answer, in milliseconds. */
  timeoutMs: number
}

const readyz: FastifyPluginAsyncTypebox<Options> = async (fastify, { sharded, timeoutMs }) => {
  fastify.get(
    '/readyz',
    {
      schema: {
        operationId: 'ready',
        summary: 'Check that the instance can serve requests',
        description:
          'With Redis, checks that Redis answers and takes writes (of a cluster, one node is enough; whether Redis is full is not checked), and that the other instances on it have the same secrets.',
        tags: ['operation'],
        security: [],
        response: {
          200: Type.Object(
            { status: Type.Literal('ready', { description: 'Always `ready`.' }) },
            { description: 'The instance can serve requests.' }
          ),
          ...problems('REDIS_UNAVAILABLE', 'SECRET_MISMATCH')
        }
      }
    },
    async () => {
      if (fastify.hasDecorator('redis')) {
        await withTimeout(works(fastify.redis, sharded), timeoutMs, () =>
          problem(503, 'REDIS_UNAVAILABLE', 'Redis does not answer, or takes no writes.')
        )
        await verify(fastify)
      }
      return { status: 'ready' as const }
    }
  )
}

/**
 * @throws a problem (503) when this instance started without Redis, and its secrets are not those in use there: then
 *   nothing is shared. Nothing is thrown where Redis does not answer
 */
async function verify({ limit, lists }: FastifyInstance): Promise<void> {
  try {
    await limit.verify()
    await lists.verify()
  } catch (cause) {
    const mismatch = problem(503, 'SECRET_MISMATCH', 'Other instances on this Redis have another secret.')
    throw Object.assign(mismatch, { cause })
  }
}

/**
 * Tests Redis by a write that changes nothing: it fails where Redis takes no writes at all, but not on a full Redis. A
 * cluster, or shards behind a proxy, work while one node does, since a lost node holds up only what is on it.
 */
async function works(redis: Redis | Cluster, sharded: boolean): Promise<void> {
  const keys = redis.isCluster || sharded ? EVERYWHERE : EVERYWHERE.slice(0, 1)
  await Promise.any(keys.map(key => redis.del(key))).catch(({ errors: [first] }: AggregateError) => {
    throw first
  })
}

export default readyz
