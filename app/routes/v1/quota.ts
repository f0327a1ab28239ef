import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { errors, type Limit } from '../../../plugin/index.js'
import { type Account, accountOf } from '../../accounts/account.js'
import { calendarLast, QUOTA } from '../../accounts/quota.js'
import { keyFrom } from '../../facts.js'
import { problem } from '../../problem.js'
import { problems } from '../../schemas/problem.js'
import { KEY, LIMITED } from '../../schemas/problem-codes.js'
import { QuotaAnswer } from '../../schemas/quota.js'

const quota: FastifyPluginAsyncTypebox = async fastify => {
  fastify.get(
    '/quota',
    {
      config: { limit: 'api-attempts' },
      preParsing: fastify.authenticate,
      schema: {
        operationId: 'readQuota',
        summary: 'Retrieve the quota of the account',
        description:
          'Tells how many messages the account has used and has left. Asking is not counted as a message.',
        tags: ['account'],
        security: [{ apiKey: [] }],
        response: { 200: QuotaAnswer, ...problems(...LIMITED, ...KEY, 'QUOTA_UNAVAILABLE') }
      }
    },
    async request => {
      const account = accountOf(request)
      const rule = fastify.limit.rules[QUOTA]
      if (rule === undefined) throw new Error('no rule on accounts')
      const key = keyFrom(rule, { 'request.account.id': account.id })
      // A policy may hide what is left, or count by more than the account.
      if (rule.private === true || key === undefined) return { account: account.id, limits: [] }
      const { rules } = await fastify.limit.peek({ [QUOTA]: key }, request).catch(unavailable)
      const written = calendarLast(rule.limits)
      const limits = rules.flatMap(state => state.limits)
      return {
        account: account.id,
        limits: limits.map((limit, i) => ({
          ...limit,
          used: limit.max - limit.remaining,
          timeZone: zoneOf(written[i], account)
        }))
      }
    }
  )
}

/** The time zone of a calendar limit: the one that the policy names, or the account's if the policy reads it there. */
function zoneOf(limit: Limit | undefined, account: Account): string | undefined {
  if (limit?.per === undefined) return undefined
  const { timeZone = 'UTC' } = limit
  return typeof timeZone === 'string' ? timeZone : account.timeZone
}

/** Answers 503 while Redis is lost: nothing stands in for it here, although messages may still be sent. */
function unavailable(cause: unknown): never {
  if (!(cause instanceof errors.StoreUnavailableError)) throw cause
  const detail = 'What is left of the quota is not known now.'
  throw Object.assign(problem(503, 'QUOTA_UNAVAILABLE', detail), { cause })
}

export default quota
