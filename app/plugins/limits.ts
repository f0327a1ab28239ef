import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import limitPlugin, { type Rule } from '../../plugin/index.js'
import { hideQuota } from '../accounts/hidden-quota.js'
import { backendsOf, passBackends } from '../backends.js'
import { wrongCodes } from '../captcha/wrong-codes.js'
import { ConfigError } from '../check.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config-schema.js'
import { KINDS, ownRules, type PolicyRule } from '../facts.js'
import type { Policy } from '../policy-schema.js'
import { passAllowed } from '../recipient-rules.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The policy in force. */
    readonly policy: Policy
    /**
     * Puts another policy in force, including its rules.
     * @throws ConfigError or OptionError that says what is wrong, and where; then the old one stays in force
     */
    replacePolicy(policy: Policy): void
  }
}

interface Options {
  config: Config
  policy: Policy
  secret: string
  clock: Clock
}

/** Registers the limit plugin with the policy's rules; they count in Redis if there is one. */
const limits: FastifyPluginAsync<Options> = async (fastify, { config, policy, secret, clock }) => {
  let inForce = policy
  fastify.decorate('policy', { getter: () => inForce })
  fastify.decorate('replacePolicy', next => {
    checkOwn(next, policy)
    try {
      fastify.limit.replace(rulesOf(next, config))
    } catch (error) {
      throw inPolicy(error)
    }
    inForce = next
  })
  try {
    await fastify.register(limitPlugin, {
      rules: rulesOf(policy, config),
      filters: [fastify.blockList, wrongCodes(config)],
      ...(fastify.hasDecorator('redis') && { client: fastify.redis, sharded: config.REDIS_SHARDED === 'on' }),
      secret,
      region: config.REGION,
      onStoreError: config.ON_STORE_ERROR,
      onDecision(event, request) {
        fastify.metrics.decided(event, request)
        fastify.auditRefusal(event, request)
        fastify.quotaGauges.note(event, request)
        fastify.softMark(event, request)
      },
      timeout: config.STORE_TIMEOUT,
      clock
    })
  } catch (error) {
    throw inPolicy(error)
  }
}

/** The rules of a policy, with additions that a policy, which is JSON, cannot express. */
const rulesOf = ({ rules }: Policy, config: Config) =>
  rules
    .map(ruleOf)
    .map(passAllowed)
    .map(hideQuota)
    .map(passBackends(backendsOf(config)))

/** A rule as the limit plugin takes it: the routes know on which requests it decides. */
const ruleOf = ({ on: _, ...rule }: PolicyRule) => rule as Rule

/**
 * Checks that a policy has the operator's own rules that the routes were made with.
 * @throws ConfigError
 */
function checkOwn(next: Policy, atStart: Policy): void {
  for (const kind of KINDS) {
    const [now, then] = [next, atStart].map(({ rules }) => ownRules(rules, kind).sort().join(', ') || 'none')
    if (now === then) continue
    throw new ConfigError(
      `policy.rules has other rules of your own on "${kind}" (${now}) than at the start (${then}): they come and go with a restart alone.`
    )
  }
}

/** How the limit plugin begins the path of a rule, when it is registered and when rules are replaced. */
const PATH = /^(?:options\.)?rules\b/

/** Makes an error of the limit plugin about a rule a ConfigError, with the rule's path in the policy. */
function inPolicy(error: unknown): unknown {
  const { code, message = '' } = error as { code?: unknown; message?: string }
  const ours = code === 'FST_SEND_LIMIT_OPTION' && PATH.test(message)
  return ours ? new ConfigError(message.replace(PATH, 'policy.rules')) : error
}

export default fp(limits, {
  name: 'limits',
  dependencies: ['redis', 'metrics', 'lists', 'audit', 'accounts']
})
