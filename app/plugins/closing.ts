import type { ServerResponse } from 'node:http'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { sendProblem } from '../failure.js'
import { problemDocument } from '../problem.js'

/**
 * While the app closes: finishes what is under way, takes nothing new, and lets connections go with their last answer,
 * else an idle one would hold up the end of the process. Goes with Fastify's `return503OnClosing: false`, whose answer
 * would be no problem document.
 */
const closing: FastifyPluginAsync = async fastify => {
  let ending = false
  fastify.addHook('preClose', async () => {
    ending = true
    // A closing server counts a connection that has asked for nothing, or not to the end, as busy, and has no time limit.
    for (const [socket, underWay] of fastify.connections) {
      const last = lastOf(underWay)
      if (last === undefined) socket.destroy()
      // Its head may be made already, without `connection: close`, while it waits behind another answer.
      else last.once('close', () => socket.destroySoon())
    }
  })
  // Not before: by then a route's scope has said which page of another origin may read the answer.
  fastify.addHook('preParsing', (_request, reply, _payload, done) => {
    if (!ending) return done()
    sendProblem(
      reply,
      problemDocument(503, 'SHUTTING_DOWN', 'This server is shutting down. Try again shortly.')
    )
  })
  fastify.addHook('onSend', ({ raw: { socket } }, reply, _payload, done) => {
    // Node ends the connection behind an answer that says so, whatever is still to be answered on it.
    const last = ending && lastOf(fastify.connections.get(socket) ?? [reply.raw])
    if (last === reply.raw) reply.header('connection', 'close')
    done()
  })
}

const lastOf = (answers: Iterable<ServerResponse>) => [...answers].at(-1)

export default fp(closing, { name: 'closing', dependencies: ['connections'] })
