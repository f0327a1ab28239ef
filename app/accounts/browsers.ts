import cors from '@fastify/cors'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'

/** How long a browser may cache the answer to its preflight, in seconds. */
const PREFLIGHT_SECONDS = 600

/**
 * Lets pages of the accounts' origins call the routes of the scope that registers this plugin, and read the answers
 * (CORS). Register it once for each prefix, before the routes.
 */
const browsers: FastifyPluginAsync = async fastify => {
  await fastify.register(cors, {
    origin: (origin, done) =>
      done(null, origin !== undefined && fastify.accounts.byOrigin(origin) !== undefined),
    methods: ['GET', 'POST', 'DELETE'],
    allowedHeaders: ['content-type', 'idempotency-key', 'accept-language'],
    exposedHeaders: ['date', 'retry-after', 'ratelimit', 'ratelimit-policy', 'idempotency-replayed'],
    credentials: false,
    maxAge: PREFLIGHT_SECONDS,
    // The answer of @fastify/cors to a broken preflight would be no problem document.
    strictPreflight: false
  })
}

export default fp(browsers, { name: 'browsers', dependencies: ['accounts'] })
