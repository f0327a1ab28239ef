import helmet from '@fastify/helmet'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'

/**
 * Headers by which browsers protect what they show (OWASP Secure Headers). Answers are read by programs and must not be
 * kept; the pages at /docs bring a policy of their own.
 */
const security: FastifyPluginAsync = async fastify => {
  await fastify.register(helmet, {
    contentSecurityPolicy: {
      // Those of helmet would let in scripts and styles again.
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] }
    },
    // A page of another origin that may ask (CORS) must be able to read the answer.
    crossOriginResourcePolicy: { policy: 'cross-origin' }
  })
  fastify.addHook('onSend', (_request, reply, _payload, done) => {
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
    done()
  })
}

export default fp(security, { name: 'security' })
