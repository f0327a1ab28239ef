import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Standing } from '../../../lists/lists.js'
import { problem } from '../../../problem.js'
import { recipientKeys } from '../../../recipient-rules.js'
import {
  DocumentedListBody,
  ListBody,
  PageAnswer,
  PageQuery,
  RecipientBody,
  StandingAnswer,
  UnblockAnswer
} from '../../../schemas/admin.js'
import { presentBody } from '../../../schemas/present-body.js'
import { problems } from '../../../schemas/problem.js'
import { BODY, type Code, LIMITED, OPERATOR, RECIPIENT } from '../../../schemas/problem-codes.js'
import { named } from './named.js'
import { shown } from './shown.js'

const LIMIT = 'admin-attempts'
const common = { tags: ['admin'], security: [{ adminKey: [] }] }
const ONE: Code[] = [...BODY, ...LIMITED, ...OPERATOR, ...RECIPIENT, 'LISTS_UNAVAILABLE']
const PAGE = 50
const MAX_MS = 366 * 86_400_000

const lists: FastifyPluginAsyncTypebox = async fastify => {
  for (const [action, standing, operationId, summary, description] of [
    [
      'block',
      'blocked',
      'blockRecipient',
      'Block a recipient',
      'Stops all messages to the recipient, for a duration or until the recipient is unblocked.'
    ],
    [
      'allow',
      'allowed',
      'allowRecipient',
      'Allow a recipient',
      'Lets messages to the recipient pass the rules on the recipient alone, `number-range` and `unverified`. All other rules still apply; for a concealed purpose, all rules.'
    ]
  ] satisfies ['block' | 'allow', Standing, string, string, string][]) {
    fastify.post(
      `/recipients/${action}`,
      {
        config: { limit: LIMIT, action, swaggerTransform: presentBody(() => DocumentedListBody) },
        schema: {
          ...common,
          operationId,
          summary,
          description,
          body: ListBody,
          response: { 200: StandingAnswer, ...problems(...ONE, 'DURATION_TOO_LONG', 'LISTS_FULL') }
        }
      },
      async request => {
        const { reason, duration } = request.body
        const { recipientHash, recipient } = named(request, request.body)
        request.audited = { ...request.audited, ...(reason !== undefined && { reason }) }
        const durationMs = duration === undefined ? undefined : msOf(duration)
        const { masked } = recipient ?? (await fastify.lists.get(recipientHash)) ?? {}
        const entry = shown(await fastify.lists.put(recipientHash, { standing, masked, reason, durationMs }))
        const { until } = entry
        request.audited = { ...request.audited, ...(until !== undefined && { until }) }
        return { recipient: masked, recipientHash, ...entry }
      }
    )
  }

  fastify.post(
    '/recipients/unblock',
    {
      config: { limit: LIMIT, action: 'unblock' },
      schema: {
        ...common,
        operationId: 'unblockRecipient',
        summary: 'Unblock a recipient',
        description:
          'Ends a block or an allowance. For a `phone` or `email`, also clears what the rules on the recipient have counted.',
        body: RecipientBody,
        response: { 200: UnblockAnswer, ...problems(...ONE, 'END_USER_IP_INVALID', 'PURPOSE_UNKNOWN') }
      }
    },
    async request => {
      const { recipientHash, recipient, facts } = named(request, request.body)
      await fastify.lists.remove(recipientHash)
      if (facts !== null) {
        // Locks stay, so that a message under way is still the only one.
        const keys = recipientKeys(fastify.limit.rules, facts)
        await fastify.limit.clear(keys)
        await fastify.limit.unblock(keys)
      }
      const countsCleared = facts !== null
      return { recipient: recipient?.masked, recipientHash, standing: null, countsCleared }
    }
  )

  fastify.get(
    '/recipients',
    {
      config: { limit: LIMIT, action: 'list' },
      schema: {
        ...common,
        operationId: 'listRecipients',
        summary: 'List blocked and allowed recipients',
        description: 'Lists recipients page by page, newest first, and shows them masked.',
        querystring: PageQuery,
        response: { 200: PageAnswer, ...problems(...LIMITED, ...OPERATOR, 'INVALID', 'LISTS_UNAVAILABLE') }
      }
    },
    async request => {
      const { standing, limit, after } = request.query
      const page = await fastify.lists.all({ standing, limit: Number(limit ?? PAGE), after })
      const recipients = page.entries.map(({ recipientHash, ...entry }) => ({
        recipient: entry.masked,
        recipientHash,
        ...shown(entry)
      }))
      return { recipients, next: page.next }
    }
  )
}

const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** @throws a problem (422) */
function msOf(duration: string): number {
  const ms = Number(duration.slice(0, -1)) * UNITS[duration.slice(-1) as keyof typeof UNITS]
  if (ms > MAX_MS) throw problem(422, 'DURATION_TOO_LONG', 'A duration must be 366d or shorter.')
  return ms
}

export default lists
