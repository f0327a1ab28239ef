import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import limitPlugin from '../../plugin/index.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config.js'
import type { Policy } from '../policy.js'

interface Options {
  config: Config
  policy: Policy
  secret: string
  clock: Clock
}

/** The policy's rules, in Redis when there is one. */
const limits: FastifyPluginAsync<Options> = async (fastify, { config, policy, secret, clock }) => {
  await fastify.register(limitPlugin, {
    rules: policy.rules,
    store: config.REDIS_URL === undefined ? 'memory' : 'redis',
    secret,
    region: config.REGION,
    onStoreError: config.ON_STORE_ERROR,
    onDecision: event => fastify.metrics.decided(event),
    clock
  })
}

export default fp(limits, { name: 'limits', dependencies: ['metrics'] })
