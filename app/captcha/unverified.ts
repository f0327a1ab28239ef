import type { FastifyReply } from 'fastify'

/** The rule on codes that nobody verifies: the messages of a code that is verified are given back to it. */
const RULE = 'unverified'

/** What gives the message of this request back to the rule; `''` when that has not counted it. */
export function receiptOf({ limit }: FastifyReply): string {
  return limit?.keyOf(RULE) === undefined ? '' : limit.receipt(RULE)
}

/** Gives messages back to the rule, since their code is verified. The answer does not wait for it. */
export function giveBack({ server, log }: FastifyReply, receipts: readonly string[]): void {
  const done = Promise.all(receipts.map(receipt => server.limit.refund(receipt))).then(
    () => {},
    error => log.warn({ err: error }, 'a verified code still counts as unverified')
  )
  void server.afterwards(done)
}
