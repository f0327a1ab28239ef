import type { FastifyRequest } from 'fastify'
import { purposeOf } from '../../../captcha/prepare.js'
import { factsIn } from '../../../facts.js'
import { flaw } from '../../../flaw.js'
import { invalidBy } from '../../../invalid.js'
import { checkEndUserIp } from '../../../plugins/requests.js'
import { checkOne, type Recipient, recipientOf } from '../../../recipient.js'

const NAMES = ['phone', 'email', 'recipientHash'] as const
const MORE = ['endUserIp', 'purpose'] as const

type Asked = { [name in (typeof NAMES | typeof MORE)[number]]?: string }

interface Named {
  recipientHash: string
  /** Null where nothing but the hash is known. */
  recipient: Recipient | null
  /** What rules may read of them, by its path; null like the recipient, by whom they count in clear. */
  facts: Record<string, unknown> | null
  /** Whether what is asked about is a purpose that conceals. */
  concealed: boolean
}

/**
 * Whom an operator names, in clear or by the hash alone; the audit trail is to name them, too.
 * @throws a problem (422) when it is not one recipient, no message can go there, or what else is said is wrong
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
    request.told = { recipientHash }
    return { recipientHash, recipient: null, facts: null, concealed }
  }
  const recipient = recipientOf(body, { region: server.region })
  request.recipient = recipient
  if (purpose !== undefined) request.told = { purpose }
  const { numberRange } = request
  const facts = factsIn({ recipient, captcha: { ...recipient, purpose }, purpose, numberRange, endUserIp })
  return { recipientHash: server.recipientHash(recipient), recipient, facts, concealed }
}
