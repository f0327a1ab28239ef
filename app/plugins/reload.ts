import { existsSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { openAccounts } from '../accounts/accounts.js'
import { checkNames } from '../accounts/file.js'
import { unspokenActions } from '../actions.js'
import { ConfigError } from '../check.js'
import type { Config } from '../config-schema.js'
import { loadPolicy, observers } from '../policy.js'
import { OWN } from '../policy-schema.js'
import { checkCodes, missingCodes } from '../senders/open.js'
import { loadTemplates, type Templates } from '../templates/templates.js'

/** How much is in force after a reload. */
interface Reloaded {
  rules: number
  purposes: number
  /** The accounts of ACCOUNTS_FILE. */
  accounts: number
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The templates in force. */
    readonly templates: Templates
    /**
     * Reads the policy, the templates and the accounts anew and puts all of them in force, or none.
     * @param request the request of the operator; left out when a signal asks for the reload
     * @throws ConfigError or OptionError that says what is wrong, and where; then nothing has changed
     */
    reload(request?: FastifyRequest): Reloaded
  }
}

const FILES = ['POLICY_FILE', 'ACCOUNTS_FILE'] as const

interface Options {
  config: Config
  templates: Templates
}

/** @throws ConfigError when an account lists an unknown purpose or template, or a provider has wrong template codes */
const reload: FastifyPluginAsync<Options> = async (fastify, { config, templates }) => {
  let inForce = templates
  fastify.decorate('templates', { getter: () => inForce })
  checkCodes(config, templates.smsParameters)
  checkNames(fastify.accounts.listed, fastify.policy, templates)
  warn()

  /** Warns of settings that are no mistakes, but perhaps not meant. */
  function warn(): void {
    const codes = missingCodes(config, [...inForce.smsParameters.keys()])
    const unspoken = unspokenActions(fastify.policy, inForce)
    for (const each of [...codes, ...unspoken, ...observers(fastify.policy)]) fastify.log.warn(each)
  }

  function replace(): Reloaded {
    for (const name of FILES) refusePipe(name, config[name])
    const next = loadTemplates(config.TEMPLATES_DIR, config.LOCALE)
    const policy = loadPolicy(config.POLICY_FILE, next)
    const accounts = openAccounts(config)
    checkCodes(config, next.smsParameters)
    checkNames(accounts.listed, policy, next)
    // First, since it may still find a mistake; the others cannot.
    fastify.replacePolicy(policy)
    fastify.replaceAccounts(accounts)
    inForce = next
    warn()
    const { rules, purposes } = policy
    return {
      rules: rules.length,
      purposes: Object.keys(purposes).length,
      accounts: accounts.listed.length
    }
  }

  fastify.decorate('reload', request => {
    const actor = request?.actor ?? 'signal'
    try {
      const reloaded = replace()
      fastify.audit({ event: 'reload', outcome: 'replaced', actor }, request)
      const { POLICY_FILE = fileURLToPath(OWN), TEMPLATES_DIR, ACCOUNTS_FILE } = config
      const files = { POLICY_FILE, TEMPLATES_DIR, ACCOUNTS_FILE }
      fastify.log.info({ ...reloaded, ...files }, 'the policy, the templates and the accounts were replaced')
      return reloaded
    } catch (error) {
      fastify.audit({ event: 'reload', outcome: 'refused', actor, detail: (error as Error).message }, request)
      throw error
    }
  })
}

/** Refuses a pipe: whoever wrote to it at the start is gone, and to read it again would block the process. */
function refusePipe(name: string, file: string | undefined): void {
  // An empty path would be the working folder, which Node's permissions may not let it look at.
  if (file !== undefined && existsSync(file) && statSync(file).isFIFO())
    throw new ConfigError(`${name} is a pipe, which is read at the start alone.`)
}

export default fp(reload, { name: 'reload', dependencies: ['audit', 'accounts', 'limits', 'senders'] })
