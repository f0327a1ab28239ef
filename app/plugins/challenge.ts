import type { FastifyPluginAsync, preHandlerAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { siteverify } from '../challenge.js'
import type { Config } from '../config-schema.js'
import { problem } from '../problem.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Whether requests without a key have to show that a challenge was solved. */
    readonly challenging: boolean
    /** A hook for the `preHandler` of a route whose body may have a `challenge`: it refuses those that have to and do not. */
    challenge: preHandlerAsyncHookHandler
  }
}

/** Asks the provider of challenges, such as Turnstile, whether the token of a request is that of a solved one. */
const challenge: FastifyPluginAsync<{ config: Config }> = async (fastify, { config }) => {
  const { CHALLENGE_URL: url, CHALLENGE_SECRET: secret } = config
  const isSolved = url && secret ? siteverify(new URL(url), secret) : undefined
  fastify.decorate('challenging', isSolved !== undefined)
  fastify.decorate('challenge', async request => {
    if (isSolved === undefined) return
    const { challenge: token } = request.body as { challenge?: string }
    if (token === undefined) {
      // A server with a key decides by itself who has to solve a challenge.
      if (request.caller === 'key') return
      fastify.metrics.challenged('missing')
      throw problem(403, 'CHALLENGE_MISSING', 'Without a key, a request for a code needs a solved challenge.')
    }
    const solved = await isSolved(token).catch((error: Error) => {
      fastify.metrics.challenged('unknown')
      request.log.warn({ err: error }, 'a challenge cannot be checked')
      throw problem(
        503,
        'CHALLENGE_UNAVAILABLE',
        'It cannot be checked now whether the challenge was solved.'
      )
    })
    fastify.metrics.challenged(solved ? 'solved' : 'failed')
    if (!solved)
      throw problem(403, 'CHALLENGE_FAILED', 'The challenge was not solved, or its token was used before.')
  })
}

export default fp(challenge, { name: 'challenge', dependencies: ['metrics', 'accounts'] })
