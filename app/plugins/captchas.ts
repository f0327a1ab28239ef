import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { type Captchas, captchasOf } from '../captcha/captchas.js'
import { MemoryRecords } from '../captcha/memory-records.js'
import { RedisRecords } from '../captcha/redis-records.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config-schema.js'

declare module 'fastify' {
  interface FastifyInstance {
    captchas: Captchas
  }
}

interface Options {
  config: Pick<Config, 'STORE_TIMEOUT'>
  secret: string
  clock: Clock
}

const captchas: FastifyPluginAsync<Options> = async (fastify, { config, secret, clock }) => {
  const records = fastify.hasDecorator('redis')
    ? new RedisRecords(fastify.redis, config.STORE_TIMEOUT)
    : new MemoryRecords(clock)
  fastify.decorate('captchas', captchasOf({ records, secret, policy: () => fastify.policy }))
}

export default fp(captchas, { name: 'captchas', dependencies: ['redis', 'limits'] })
