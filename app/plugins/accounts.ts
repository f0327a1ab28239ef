import type { FastifyPluginAsync, preParsingAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { type Account, accountsOf } from '../accounts.js'
import type { Config } from '../config.js'
import { problem } from '../problem.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** A hook: lets in who sends a known `x-api-key`, before the body is read and after attempts are counted. */
    authenticate: preParsingAsyncHookHandler
  }
  interface FastifyRequest {
    account: Account | null
  }
}

const accounts: FastifyPluginAsync<{ config: Config }> = async (fastify, { config }) => {
  const accountOf = accountsOf(config)
  fastify.decorateRequest('account', null)
  fastify.decorate('authenticate', async request => {
    const key = request.headers['x-api-key']
    const account = typeof key === 'string' ? accountOf(key) : undefined
    if (account === undefined) {
      throw problem(401, 'API_KEY_INVALID', 'The header x-api-key is missing, or its key is not known.')
    }
    request.account = account
  })
}

export default fp(accounts, { name: 'accounts' })
