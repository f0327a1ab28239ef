import { existsSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import limitPlugin from '../../plugin/index.js'
import { strayNames } from '../accounts/file.js'
import { hideQuota } from '../accounts/hidden-quota.js'
import { passBackends } from '../backends.js'
import { ConfigError } from '../check.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config.js'
import { backendsOf } from '../config-checks.js'
import { loadPolicy, OWN, type Policy } from '../policy.js'
import { passAllowed } from '../recipient-rules.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The policy in force. */
    readonly policy: Policy
    /**
     * Reads the policy anew and puts it in force as a whole.
     * @param request that of the operator who wants it; left out: a signal does
     * @throws ConfigError or OptionError that says what is wrong, and where; then the old one stays in force
     */
    reloadPolicy(request?: FastifyRequest): Promise<Policy>
  }
}

interface Options {
  config: Config
  policy: Policy
  secret: string
  clock: Clock
}

/**
 * The policy's rules, in Redis when there is one.
 * @throws ConfigError when an account lists a purpose that the policy lacks
 */
const limits: FastifyPluginAsync<Options> = async (fastify, { config, policy, secret, clock }) => {
  const strayPurposes = ({ purposes }: Policy) =>
    strayNames(fastify.accounts.listed, 'purposes', Object.keys(purposes))
  const [stray] = strayPurposes(policy)
  if (stray !== undefined) throw stray
  let inForce = policy
  fastify.decorate('policy', { getter: () => inForce })
  fastify.decorate('reloadPolicy', async (request?: FastifyRequest) => {
    const actor = request?.actor ?? 'signal'
    try {
      if (isPipe(config.POLICY_FILE)) {
        throw new ConfigError('POLICY_FILE is a pipe, which is read at the start alone.')
      }
      const next = loadPolicy(config.POLICY_FILE, fastify.templates)
      fastify.limit.replace(rulesOf(next, config))
      inForce = next
      for (const { message } of strayPurposes(next)) fastify.log.warn(message)
    } catch (thrown) {
      const error = inPolicy(thrown)
      fastify.audit({ event: 'policy', outcome: 'refused', actor, detail: (error as Error).message }, request)
      throw error
    }
    fastify.audit({ event: 'policy', outcome: 'replaced', actor }, request)
    const file = config.POLICY_FILE ?? fileURLToPath(OWN)
    fastify.log.info({ rules: inForce.rules.length, file }, 'the policy was replaced')
    return inForce
  })
  try {
    await fastify.register(limitPlugin, {
      rules: rulesOf(policy, config),
      filters: [fastify.blockList],
      ...(fastify.hasDecorator('redis') && { client: fastify.redis }),
      secret,
      region: config.REGION,
      onStoreError: config.ON_STORE_ERROR,
      onDecision(event, request) {
        fastify.metrics.decided(event)
        fastify.auditRefusal(event, request)
        fastify.softMark(event, request)
      },
      timeout: config.STORE_TIMEOUT,
      clock
    })
  } catch (error) {
    throw inPolicy(error)
  }
}

/** With what a policy, which is JSON, cannot say. */
const rulesOf = ({ rules }: Policy, config: Config) =>
  rules
    .map(passAllowed)
    .map(hideQuota)
    .map(passBackends(backendsOf(config)))

/** As the plugin begins the path of a rule, when it is registered and when rules are replaced. */
const PATH = /^(?:options\.)?rules\b/

/** What the plugin finds wrong with a rule, by its place in the policy. */
function inPolicy(error: unknown): unknown {
  const { code, message = '' } = error as { code?: unknown; message?: string }
  const ours = code === 'FST_SEND_LIMIT_OPTION' && PATH.test(message)
  return ours ? new ConfigError(message.replace(PATH, 'policy.rules')) : error
}

/** Everything would wait for somebody to write to it: who wrote its first policy is gone. */
const isPipe = (file = '') => existsSync(file) && statSync(file).isFIFO()

export default fp(limits, {
  name: 'limits',
  dependencies: ['redis', 'metrics', 'lists', 'audit', 'accounts']
})
