import { finished } from 'node:stream/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { iso } from '../clock.js'
import { checkHeld, dispatch } from '../dispatch.js'
import type { ProblemError } from '../problem.js'
import { undeliveredOf } from '../senders/deliver.js'
import type { Asked, Captcha, Issued } from './captchas.js'
import { messageOf } from './message.js'
import { giveBack, receiptOf } from './unverified.js'

/**
 * Sends a code and answers 202. For a concealed purpose it answers first, alike for every recipient, and then sends. A
 * message that surely was not sent is refunded; for a concealed purpose, not if the reason may be the message (`limited`,
 * `refused`, `ofMessage`).
 * @throws a problem that says why the message could not be sent
 */
export async function sendCode(
  request: FastifyRequest,
  reply: FastifyReply,
  asked: Asked | Captcha,
  issued: Issued
) {
  const { server } = request
  try {
    request.message = messageOf(request, asked, issued)
    if (request.concealed) checkHeld(request, reply.limit)
  } catch (error) {
    await takeBack(error, reply, issued)
    throw error
  }
  const now = server.clock.wall()
  const answer = {
    id: issued.id,
    channel: asked.channel,
    recipient: asked.masked,
    expiresAt: iso(now + issued.lifeMs),
    resendAt: iso(now + (reply.limit?.retryAfterMs ?? 0))
  }
  if (request.concealed) {
    // Listen before sending the answer: once it has left, no event tells of it.
    const left = finished(reply.raw).catch(() => {})
    reply.code(202).send(answer)
    await server.afterwards(sendUnseen(request, reply, issued, left))
    return
  }
  try {
    await noteSent(reply, issued, await dispatch(request, reply.limit))
  } catch (error) {
    if (!(await takeBack(error, reply, issued))) Object.assign((error as ProblemError).problem, answer)
    throw error
  }
  return reply.code(202).send(answer)
}

async function sendUnseen(
  request: FastifyRequest,
  reply: FastifyReply,
  issued: Issued,
  left: Promise<void>
): Promise<void> {
  // A lock that is still held would reveal that a message is being sent.
  await reply.limit?.release()
  // The duration of sending must not show in the time of the answer.
  await left
  try {
    await noteSent(reply, issued, await dispatch(request, reply.limit))
  } catch (error) {
    // What the provider says of the message must not show later either, by a code taken back or a send refunded.
    const { outcome, ofMessage } = undeliveredOf(error)
    if (outcome === 'limited' || outcome === 'refused' || ofMessage) return noteSent(reply, issued, '')
    if (outcome === 'failed') await reply.limit?.refund()
    // Otherwise, codes that cost nothing would fill the store while a provider fails.
    await takeBack(error, reply, issued)
  }
}

/**
 * Notes what became of the message.
 * @param sender the sender that took it; `''` when none is known to have
 * @param perhaps the sender that may have taken it
 */
async function noteSent(reply: FastifyReply, issued: Issued, sender: string, perhaps = ''): Promise<void> {
  const receipt = receiptOf(reply)
  try {
    const verified = await reply.server.captchas.noteSent(issued, { sender, perhaps, receipt })
    // Before the provider answered: whoever verified it did not find the receipt.
    if (verified && receipt !== '') giveBack(reply, [receipt])
  } catch (failed) {
    reply.log.warn({ err: failed }, 'what became of the message of a code is not noted')
  }
}

/**
 * Takes the code back, unless its message may have been sent and the code must work.
 * @returns whether it was taken back
 */
async function takeBack(error: unknown, reply: FastifyReply, issued: Issued): Promise<boolean> {
  const { outcome, sender } = undeliveredOf(error)
  if (outcome === 'unknown') {
    await noteSent(reply, issued, '', sender)
    return false
  }
  await issued.undo().catch(failed => {
    reply.log.warn(
      { err: failed },
      'a code whose message failed stays until it expires, unless a later try succeeds'
    )
  })
  return true
}
