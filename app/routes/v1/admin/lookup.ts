import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Limit, Rule, Verdict } from '../../../../plugin/index.js'
import { keyFrom } from '../../../facts.js'
import type { CurrentEntry } from '../../../lists/lists.js'
import { passesAllowed } from '../../../recipient-rules.js'
import { LookupAnswer, RecipientBody } from '../../../schemas/admin.js'
import { problems } from '../../../schemas/problem.js'
import { BODY, LIMITED, OPERATOR, RECIPIENT } from '../../../schemas/problem-codes.js'
import { named } from './named.js'
import { shown } from './shown.js'

/** Answers the question "why is this number blocked?". */
const lookup: FastifyPluginAsyncTypebox = async fastify => {
  fastify.post(
    '/recipients/lookup',
    {
      config: { limit: 'admin-attempts', action: 'lookup' },
      schema: {
        operationId: 'lookUpRecipient',
        summary: 'Look up a recipient',
        description:
          'Tells why a recipient gets no message: whether the recipient is blocked or allowed, and what the rules on the recipient have counted.',
        tags: ['admin'],
        security: [{ adminKey: [] }],
        body: RecipientBody,
        response: {
          200: LookupAnswer,
          ...problems(
            ...BODY,
            ...LIMITED,
            ...OPERATOR,
            ...RECIPIENT,
            'END_USER_IP_INVALID',
            'PURPOSE_UNKNOWN',
            'LISTS_UNAVAILABLE'
          )
        }
      }
    },
    async request => {
      const { recipientHash, recipient, facts, concealed } = named(request, request.body)
      const entry = await fastify.lists.get(recipientHash)
      const known = {
        recipient: recipient?.masked ?? entry?.masked,
        recipientHash,
        standing: entry && shown(entry)
      }
      if (facts === null) return known
      const looks = Object.entries(fastify.limit.rules).map(async ([name, rule]) => {
        const key = variesByRequest(rule) ? undefined : keyFrom(rule, facts)
        if (key === undefined) return []
        const passes = entry?.standing === 'allowed' && !concealed && passesAllowed(rule)
        return [{ name, passes, verdict: await fastify.limit.peek({ [name]: key }) }]
      })
      const found = (await Promise.all(looks)).flat()
      const holding = found.filter(({ passes }) => !passes)
      return {
        ...known,
        rules: found.flatMap(({ name, verdict, passes }) => statesOf(name, verdict, passes)),
        retryAfterMs: waiting(
          entry,
          holding.map(({ verdict }) => verdict)
        )
      }
    }
  )
}

/** Whether a rule takes more than its key from a request: then it cannot be looked at without that request. */
function variesByRequest({ cost, limits = [] }: Rule): boolean {
  const varies = (limit: Limit) =>
    typeof limit.max !== 'number' || ('timeZone' in limit && typeof limit.timeZone !== 'string')
  return cost !== undefined || limits.some(varies)
}

/** @param passes whether the rule lets the recipient pass, whatever it has counted */
function statesOf(rule: string, { rules, violated }: Verdict, passes: boolean) {
  const blocked = violated.some(({ windowMs }) => windowMs === 0)
  const limits = rules.flatMap(state => state.limits)
  // For a recipient on the rule's own block list, nothing is counted.
  if (blocked && limits.length === 0) {
    return [{ rule, max: 0, used: 0, remaining: 0, windowMs: 0, resetMs: 0, refuses: !passes }]
  }
  return limits.map(({ max, remaining, windowMs, resetMs }) => {
    const refuses = !passes && (blocked || (violated.length > 0 && remaining === 0))
    return { rule, max, used: max - remaining, remaining, windowMs, resetMs, refuses }
  })
}

function waiting(entry: CurrentEntry | null, verdicts: readonly Verdict[]): number | null {
  const times = verdicts.map(({ retryAfterMs }) => retryAfterMs)
  if (entry?.standing === 'blocked') times.push(entry.leftMs ?? null)
  return times.includes(null) ? null : Math.max(0, ...(times as number[]))
}

export default lookup
