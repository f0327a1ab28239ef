import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { isMistake } from '../../../check.js'
import { problem } from '../../../problem.js'
import { ReloadAnswer } from '../../../schemas/admin.js'
import { problems } from '../../../schemas/problem.js'
import { LIMITED, OPERATOR, READ } from '../../../schemas/problem-codes.js'

const reload: FastifyPluginAsyncTypebox = async fastify => {
  fastify.post(
    '/reload',
    {
      config: { limit: 'admin-attempts', action: 'reload' },
      schema: {
        operationId: 'reload',
        summary: 'Reload the policy, the templates and the accounts',
        description:
          'Reads the files of this instance anew and puts all of them in force together. If one has a mistake, nothing changes.',
        tags: ['admin'],
        security: [{ adminKey: [] }],
        response: { 200: ReloadAnswer, ...problems(...READ, ...LIMITED, ...OPERATOR, 'RELOAD_REFUSED') }
      }
    },
    async request => {
      try {
        return fastify.reload(request)
      } catch (error) {
        if (!isMistake(error)) throw error
        const detail =
          'The policy, the templates and the accounts in force stay. What is wrong with the new ones: {reason}'
        throw problem(422, 'RELOAD_REFUSED', detail, { reason: error.message })
      }
    }
  )
}

export default reload
