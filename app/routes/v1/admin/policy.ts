import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { ConfigError } from '../../../check.js'
import { problem } from '../../../problem.js'
import { PolicyAnswer } from '../../../schemas/admin.js'
import { problems } from '../../../schemas/problem.js'

const policy: FastifyPluginAsyncTypebox = async fastify => {
  fastify.post(
    '/policy',
    {
      config: { limit: 'admin-attempts', action: 'reload-policy' },
      schema: {
        operationId: 'reloadPolicy',
        summary:
          'Reads the policy and the templates again and puts them in force as a whole; a bad one changes nothing',
        tags: ['admin'],
        security: [{ adminKey: [] }],
        response: { 200: PolicyAnswer, ...problems(400, 401, 413, 415, 422, 500) }
      }
    },
    async request => {
      try {
        const { rules, purposes } = await fastify.reloadPolicy(request)
        return { rules: rules.length, purposes: Object.keys(purposes).length }
      } catch (error) {
        if (!isMistake(error)) throw error
        const detail = 'The policy or a template is not valid; those before stay in force: {reason}'
        throw problem(422, 'POLICY_INVALID', detail, { reason: error.message })
      }
    }
  )
}

/** What an operator can put right: the app's own check, or the plugin's of a rule. */
function isMistake(error: unknown): error is Error {
  const { code = '' } = error as { code?: string }
  return error instanceof ConfigError || code.startsWith('FST_SEND_LIMIT_')
}

export default policy
