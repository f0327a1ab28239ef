import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Rule, Verdict } from '../../../../plugin/index.js'
import type { Found } from '../../../lists/lists.js'
import { recipientOf } from '../../../recipient.js'
import { isOfRecipient, passesAllowed, recipientRules } from '../../../recipient-rules.js'
import { LookupAnswer, RecipientBody } from '../../../schemas/admin.js'
import { problems } from '../../../schemas/problem.js'
import { shown } from './shown.js'

/** "Why is this number blocked?" */
const lookup: FastifyPluginAsyncTypebox = async fastify => {
  fastify.post(
    '/recipients/lookup',
    {
      config: { limit: 'admin-attempts', action: 'lookup' },
      schema: {
        operationId: 'lookUpRecipient',
        summary: 'How a recipient stands, and how much is used of each rule',
        tags: ['admin'],
        security: [{ adminKey: [] }],
        body: RecipientBody,
        response: { 200: LookupAnswer, ...problems(400, 401, 413, 415, 422, 500, 503) }
      }
    },
    async request => {
      const recipient = recipientOf(request.body, { region: fastify.region })
      request.recipient = recipient
      const placed = await fastify.lists.get(recipient.identity)
      const { rules } = fastify.limit
      const found = await Promise.all(
        recipientRules(rules, 'all').map(async name => {
          const rule = rules[name] as Rule
          const passes = placed?.standing === 'allowed' && passesAllowed(rule)
          return { name, rule, passes, verdict: await fastify.limit.peek({ [name]: recipient.identity }) }
        })
      )
      const holding = found.filter(({ rule, passes }) => isOfRecipient(rule.key) && !passes)
      return {
        recipient: recipient.masked,
        standing: placed && shown(placed),
        rules: found.flatMap(({ name, verdict, passes }) => statesOf(name, verdict, passes)),
        retryAfterMs: waiting(
          placed,
          holding.map(({ verdict }) => verdict)
        )
      }
    }
  )
}

/** @param passes whether it lets the recipient pass, whatever it has counted */
function statesOf(rule: string, { rules, violated }: Verdict, passes: boolean) {
  const blocked = violated.some(({ windowMs }) => windowMs === 0)
  const limits = rules.flatMap(state => state.limits)
  // On the block list of the rule itself, nothing is counted.
  if (blocked && limits.length === 0) {
    return [{ rule, max: 0, used: 0, remaining: 0, windowMs: 0, resetMs: 0, refuses: !passes }]
  }
  return limits.map(({ max, remaining, windowMs, resetMs }) => {
    const refuses = !passes && (blocked || (violated.length > 0 && remaining === 0))
    return { rule, max, used: max - remaining, remaining, windowMs, resetMs, refuses }
  })
}

function waiting(found: Found | null, verdicts: readonly Verdict[]): number | null {
  const times = verdicts.map(({ retryAfterMs }) => retryAfterMs)
  if (found?.standing === 'blocked') times.push(found.leftMs ?? null)
  return times.includes(null) ? null : Math.max(0, ...(times as number[]))
}

export default lookup
