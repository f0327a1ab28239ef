import cors from '@fastify/cors'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'

/** How long a browser keeps the answer to its preflight, in seconds. */
const PREFLIGHT_SECONDS = 600

/**
 * Lets pages of the accounts' origins call the routes of the scope that registers it, and read their answers (CORS).
 * Register it once for each prefix, before the routes.
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
    // Its answer to a broken preflight would be no problem document.
    strictPreflight: false
  })
}

export default fp(browsers, { name: 'browsers', dependencies: ['accounts'] })
