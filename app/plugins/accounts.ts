import type { FastifyPluginAsync, FastifyRequest, preParsingAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { compileIpList, type LimitDecorator } from '../../plugin/index.js'
import type { Account } from '../accounts/account.js'
import { type Accounts, openAccounts } from '../accounts/accounts.js'
import { type QuotaGauges, quotaGaugesOf } from '../accounts/quota-gauges.js'
import { type SoftMark, softMarkOf } from '../accounts/soft-mark.js'
import { backendsOf } from '../backends.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config-schema.js'
import { problem, unauthorized } from '../problem.js'
import { withHeader } from '../schemas/headers.js'
import { END_USER } from './requests.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The accounts in force. */
    readonly accounts: Accounts
    /** Puts other accounts in force. A request under way keeps the account that it began with. */
    replaceAccounts(accounts: Accounts): void
    /** A hook that admits requests with a known `x-api-key`, before the body is read and after attempts are counted. */
    authenticate: preParsingAsyncHookHandler
    /** The same hook, which also admits requests without a key: from pages of an account, and as `anonymous`. */
    identify: preParsingAsyncHookHandler
    /** For `onDecision`: reports when an account, or all accounts together, have just used 80 % of a quota. */
    softMark: SoftMark
    quotaGauges: QuotaGauges
  }
  interface FastifyRequest {
    account: Account | null
    /** What identified the account; null without an account, and for requests without key and origin in development. */
    caller: 'key' | 'origin' | null
    /** The rules with which the request began, and by which it is decided to its end; null before that. */
    limitRules: LimitDecorator['rules'] | null
  }
}

const accounts: FastifyPluginAsync<{ config: Config; clock: Clock }> = async (fastify, { config, clock }) => {
  let inForce = openAccounts(config)
  fastify.decorateRequest('account', null)
  fastify.decorateRequest('caller', null)
  fastify.decorateRequest('limitRules', null)
  fastify.addHook('onRequest', (request, _reply, done) => {
    request.limitRules = fastify.limit.rules
    done()
  })
  fastify.decorate('accounts', { getter: () => inForce })
  fastify.decorate('replaceAccounts', next => {
    inForce = next
    fastify.quotaGauges.clear()
  })
  fastify.decorate('quotaGauges', quotaGaugesOf(fastify, clock))
  fastify.decorate('softMark', softMarkOf(fastify, clock, config.STORE_TIMEOUT))

  fastify.decorate('authenticate', async request => {
    const key = keyOf(request)
    if (typeof key !== 'string') throw missing()
    const found = inForce.byKey(key)
    if (found === undefined) throw refused('API_KEY_UNKNOWN', 'The key of the header x-api-key is not known.')
    if (found.revoked) throw refused('API_KEY_REVOKED', 'The key of the header x-api-key has been revoked.')
    if (!found.isFrom(request.ip)) {
      request.log.warn(
        { account: found.account.id },
        'refused a key from an address that its account does not list'
      )
      throw problem(
        403,
        'ADDRESS_FORBIDDEN',
        'The key of the header x-api-key is not accepted from this address.'
      )
    }
    request.account = found.account
    request.caller = 'key'
  })

  const isBackend = compileIpList(backendsOf(config))
  let warned = false
  /** Warns once, since every request of such a server would be a reason. */
  function warnOfNobody({ method, headers, ip, log }: FastifyRequest): void {
    if (warned || method !== 'POST' || headers[END_USER] !== undefined || !isBackend(ip)) return
    warned = true
    log.warn(`a server of BACKENDS asks without ${END_USER}: all its users count as one end user`)
  }

  fastify.addHook('onRoute', route => {
    if (route.preParsing === fastify.identify) route.schema = withHeader(route.schema, END_USER, END_USER_IP)
  })
  fastify.decorate('identify', async function (request, reply, payload) {
    const { origin } = request.headers
    const key = keyOf(request)
    if (key === undefined && origin !== undefined) {
      const account = inForce.byOrigin(origin)
      if (account === undefined) {
        throw problem(403, 'ORIGIN_UNKNOWN', 'Pages of this origin are not allowed here.')
      }
      request.account = account
      request.caller = 'origin'
    } else if (key === undefined && inForce.anonymous !== null) {
      request.account = inForce.anonymous
    } else {
      await fastify.authenticate.call(this, request, reply, payload)
      warnOfNobody(request)
    }
  })
}

const END_USER_IP =
  'The IP address of the end user for whom a server sends the request. If absent, limits count the server as the end user. Ignored without an API key.'

// An empty key counts as none, since its hash is easily listed by mistake.
const keyOf = ({ headers }: FastifyRequest) => headers['x-api-key'] || undefined

const refused = (code: string, detail: string) => unauthorized(code, detail, 'verification-api', 'x-api-key')
const missing = () => refused('API_KEY_MISSING', 'The header x-api-key is missing.')

/**
 * Refuses requests without a key, for what pages may not ask although their account may: anybody can forge an origin.
 * @throws a problem (401)
 */
export function checkHasKey({ caller }: FastifyRequest): void {
  if (caller !== 'key') throw missing()
}

export default fp(accounts, { name: 'accounts', dependencies: ['redis', 'metrics', 'audit'] })
