import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { type Captchas, captchasOf } from '../captcha/captchas.js'
import { MemoryCodes } from '../captcha/memory-codes.js'
import { RedisCodes } from '../captcha/redis-codes.js'
import type { Clock } from '../clock.js'
import type { Policy } from '../policy.js'

declare module 'fastify' {
  interface FastifyInstance {
    captchas: Captchas
  }
}

interface Options {
  policy: Policy
  secret: string
  clock: Clock
}

const captchas: FastifyPluginAsync<Options> = async (fastify, { policy, secret, clock }) => {
  const codes = fastify.hasDecorator('redis') ? new RedisCodes(fastify.redis) : new MemoryCodes(clock)
  fastify.decorate('captchas', captchasOf({ ...policy.code, codes, secret, clock }))
}

export default fp(captchas, { name: 'captchas', dependencies: ['redis'] })
