import { type Static, type TProperties, Type } from 'typebox'
import { CHANNELS } from '../senders/sender.js'

const Hash = (description: string) =>
  Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{22}$', description }))

const Optional = {
  account: Type.Optional(Type.String({ description: 'id of the account' })),
  channel: Type.Optional(Type.Enum(CHANNELS)),
  country: Type.Optional(
    Type.String({
      pattern: '^([A-Z]{2}|001)$',
      description: 'of a phone number, or whose quota it is; as in countries of the policy'
    })
  ),
  purpose: Type.Optional(Type.String({ description: 'what a code is for' })),
  template: Type.Optional(Type.String({ description: 'name of the template' })),
  recipient: Type.Optional(Type.String({ description: 'masked: enough to recognize, too little to reach' })),
  recipientHash: Hash('keyed hash: same person, same hash'),
  paramsHash: Hash('keyed hash of what a code is bound to, or was said to be: same values, same hash'),
  network: Hash("keyed hash of the end user's address, else the client's; IPv6 by /64")
}

const Rules = Type.Array(Type.String(), { minItems: 1, description: 'names of rules' })

function kind<Event extends string, Own extends TProperties>(event: Event, description: string, own: Own) {
  return Type.Object(
    {
      audit: Type.Literal(1, { description: 'version of this schema; marks the line as one of the trail' }),
      time: Type.String({
        pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$',
        description: 'ISO 8601, UTC'
      }),
      event: Type.Literal(event),
      requestId: Type.Optional(
        Type.String({ description: 'as in the log; left out for what no request did' })
      ),
      ...Optional,
      ...own
    },
    { additionalProperties: false, description }
  )
}

/** A line of the audit trail: one kind for each `event`. */
export const AuditEventSchema = Type.Union([
  kind('send', 'a message was handed to a sender, or held back', {
    sender: Type.String({ description: 'name of the sender, or none' }),
    outcome: Type.Enum(['sent', 'limited', 'refused', 'failed', 'unknown', 'suppressed']),
    code: Type.Optional(Type.String({ description: 'why it failed' })),
    reference: Type.Optional(Type.String({ description: "the provider's own id of the message" })),
    segments: Type.Optional(Type.Integer({ minimum: 0, description: 'of an SMS' })),
    cost: Type.Optional(
      Type.Object(
        { amount: Type.Number({ minimum: 0 }), currency: Type.String() },
        { additionalProperties: false, description: 'estimate by the prices of the policy' }
      )
    ),
    latencyMs: Type.Optional(Type.Number({ minimum: 0, description: 'how long the sender took' }))
  }),
  kind('refusal', 'rules, a filter, or the countries of the policy refused a request', {
    rules: Rules,
    stage: Type.Enum(['attempts', 'sends']),
    outcome: Type.Enum(['exceeded', 'in-flight', 'blocked', 'not-served']),
    retryAfterMs: Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
      description: 'until it would be admitted; null when no time can be named'
    })
  }),
  kind('verification', 'a code was tried', {
    sender: Type.Optional(Type.String({ description: 'the one that took the message of the code' })),
    outcome: Type.Enum(['verified', 'wrong', 'ended', 'unknown']),
    triesLeft: Type.Optional(Type.Integer({ minimum: 0 }))
  }),
  kind('cancel', 'a code was called off', {
    outcome: Type.Enum(['cancelled', 'ended', 'unknown'])
  }),
  kind('quota', 'an account, or all together, have used 80 % of a quota or budget', {
    outcome: Type.Literal('soft-mark'),
    rules: Rules,
    currency: Type.Optional(Type.String({ description: 'of a budget: that of `used` and `max`' })),
    used: Type.Number({ minimum: 0 }),
    max: Type.Number({ minimum: 0 })
  }),
  kind('admin', 'an operator asked or changed something', {
    actor: Type.String({
      description: "first 8 hexadecimal digits of the SHA-256 hash of the operator's key"
    }),
    action: Type.Enum(['lookup', 'block', 'allow', 'unblock', 'list', 'reload']),
    outcome: Type.Enum(['done', 'failed']),
    reason: Type.Optional(Type.String({ description: 'as the operator wrote it' })),
    until: Type.Optional(Type.String({ description: 'when it ends by itself, ISO 8601' }))
  }),
  kind('admin-key', 'somebody asked with a wrong admin key', { outcome: Type.Literal('wrong') }),
  kind('reload', 'the policy, the templates and the accounts were read anew', {
    outcome: Type.Enum(['replaced', 'refused']),
    actor: Type.Optional(Type.String({ description: 'as in admin, or signal' })),
    detail: Type.Optional(Type.String({ description: 'what is wrong with the new ones' }))
  })
])
export type AuditEvent = Static<typeof AuditEventSchema>
/** What an operator did. */
export type AdminEvent = Extract<AuditEvent, { event: 'admin' }>

/** The members that plugins/audit.ts fills in. */
type Filled = 'audit' | 'time' | 'requestId' | 'paramsHash' | 'network' | 'country' | 'cost'

/** An event as it is passed to `fastify.audit`. */
export type AuditFact = AuditEvent extends infer Event
  ? Event extends AuditEvent
    ? Omit<Event, Filled>
    : never
  : never
