import { existsSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { strayNames } from '../accounts/file.js'
import { ConfigError } from '../check.js'
import type { Config } from '../config.js'
import { loadPolicy, OWN, type Policy } from '../policy.js'
import { checkCodes, missingCodes } from '../senders/open.js'
import { loadTemplates, type Templates } from '../templates/templates.js'
import { inPolicy, rulesOf } from './limits.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The policy in force. */
    readonly policy: Policy
    /** The words of messages in force. */
    readonly templates: Templates
    /**
     * Reads the policy and the templates anew and puts them in force as a whole.
     * @param request that of the operator who wants it; left out: a signal does
     * @throws ConfigError or OptionError that says what is wrong, and where; then the old ones stay in force
     */
    reloadPolicy(request?: FastifyRequest): Promise<Policy>
  }
}

interface InForce {
  policy: Policy
  templates: Templates
}

interface Options extends InForce {
  config: Config
}

/**
 * What is sent and how often, replaced as a whole.
 * @throws ConfigError when an account lists a purpose or a template that is not there, or a provider's codes do
 */
const policy: FastifyPluginAsync<Options> = async (fastify, { config, ...given }) => {
  const strays = ({ policy, templates }: InForce) => {
    const { listed } = fastify.accounts
    const names = new Set([
      ...Object.keys(templates.offered('sms')),
      ...Object.keys(templates.offered('mail'))
    ])
    return [
      ...strayNames(listed, 'purposes', Object.keys(policy.purposes)),
      ...strayNames(listed, 'templates', [...names])
    ]
  }
  const warnOfCodes = ({ templates }: InForce) => {
    for (const missing of missingCodes(config, [...templates.smsParameters.keys()])) fastify.log.warn(missing)
  }
  const load = (): InForce => {
    if (isPipe(config.POLICY_FILE)) {
      throw new ConfigError('POLICY_FILE is a pipe, which is read at the start alone.')
    }
    const templates = loadTemplates(config.TEMPLATES_DIR, config.LOCALE)
    const policy = loadPolicy(config.POLICY_FILE, templates)
    checkCodes(config, templates.smsParameters)
    return { policy, templates }
  }

  checkCodes(config, given.templates.smsParameters)
  const [stray] = strays(given)
  if (stray !== undefined) throw stray
  warnOfCodes(given)
  let inForce: InForce = given
  fastify.decorate('policy', { getter: () => inForce.policy })
  fastify.decorate('templates', { getter: () => inForce.templates })
  fastify.decorate('reloadPolicy', async (request?: FastifyRequest) => {
    const actor = request?.actor ?? 'signal'
    try {
      const next = load()
      fastify.limit.replace(rulesOf(next.policy, config))
      inForce = next
    } catch (thrown) {
      const error = inPolicy(thrown)
      fastify.audit({ event: 'policy', outcome: 'refused', actor, detail: (error as Error).message }, request)
      throw error
    }
    for (const { message } of strays(inForce)) fastify.log.warn(message)
    warnOfCodes(inForce)
    fastify.audit({ event: 'policy', outcome: 'replaced', actor }, request)
    const file = config.POLICY_FILE ?? fileURLToPath(OWN)
    fastify.log.info({ rules: inForce.policy.rules.length, file }, 'the policy was replaced')
    return inForce.policy
  })
}

/** Everything would wait for somebody to write to it: who wrote its first policy is gone. */
const isPipe = (file = '') => existsSync(file) && statSync(file).isFIFO()

export default fp(policy, { name: 'policy', dependencies: ['accounts', 'audit', 'limits', 'senders'] })
