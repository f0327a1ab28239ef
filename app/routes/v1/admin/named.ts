import type { FastifyRequest } from 'fastify'
import { purposeOf } from '../../../captcha/prepare.js'
import { type FactValues, factsIn } from '../../../facts.js'
import { flaw } from '../../../flaw.js'
import { invalidBy } from '../../../invalid.js'
import { checkEndUserIp } from '../../../plugins/requests.js'
import { checkOne, type Recipient, recipientOf } from '../../../recipient.js'

const NAMES = ['phone', 'email', 'recipientHash'] as const
const MORE = ['endUserIp', 'purpose'] as const

type Asked = { [name in (typeof NAMES | typeof MORE)[number]]?: string }

interface Named {
  recipientHash: string
  /** Null when only the hash is known. */
  recipient: Recipient | null
  /** The facts that rules may read; null when only the hash is known, by which no rule counts. */
  facts: FactValues | null
  /** Whether the purpose asked about, if any, conceals. */
  concealed: boolean
}

/**
 * The recipient that an operator names, in clear or by the hash alone. Notes it on the request, for the audit trail.
 * @throws a problem (422) when not exactly one recipient is named, no message can go there, or another member is wrong
 */
export function named(request: FastifyRequest, body: Asked): Named {
  const { server } = request
  const { recipientHash, endUserIp, purpose } = body
  checkOne(body, NAMES)
  if (endUserIp !== undefined) checkEndUserIp(endUserIp, '#/endUserIp')
  const { conceal: concealed = false } =
    purpose === undefined ? {} : purposeOf(server.policy, purpose, '#/purpose')
  if (recipientHash !== undefined) {
    const unexpected = MORE.filter(name => body[name] !== undefined)
    if (unexpected.length > 0) throw invalidBy(unexpected.map(name => flaw(`#/${name}`, 'UNEXPECTED')))
    request.audited = { recipientHash }
    return { recipientHash, recipient: null, facts: null, concealed }
  }
  const recipient = recipientOf(body, { region: server.region })
  request.recipient = recipient
  if (purpose !== undefined) request.audited = { purpose }
  const { numberRange, numberBlock } = request
  const captcha = { ...recipient, purpose }
  const facts = factsIn({ recipient, captcha, purpose, numberRange, numberBlock, endUserIp })
  return { recipientHash: server.recipientHash(recipient), recipient, facts, concealed }
}
