import type { ServerResponse } from 'node:http'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { sendProblem } from '../failure.js'
import { problemDocument } from '../problem.js'

/**
 * While the app closes, finishes the requests under way, refuses new ones, and ends each connection with its last
 * answer; otherwise an idle connection would hold up the end of the process. Needs Fastify's `return503OnClosing:
 * false`, since Fastify's own answer would be no problem document.
 */
const closing: FastifyPluginAsync = async fastify => {
  let ending = false
  fastify.addHook('preClose', async () => {
    ending = true
    // A closing server counts a connection without a complete request as busy, and waits for it without a time limit.
    for (const [socket, underWay] of fastify.connections) {
      const last = lastOf(underWay)
      if (last === undefined) socket.destroy()
      // While the last answer waits behind another one, its head may be made already, without `connection: close`.
      else last.once('close', () => socket.destroySoon())
    }
  })
  // No sooner: by now the route's scope has set the CORS headers, by which pages of other origins may read the answer.
  fastify.addHook('preParsing', (_request, reply, _payload, done) => {
    if (!ending) return done()
    sendProblem(
      reply,
      problemDocument(503, 'SHUTTING_DOWN', 'This server is shutting down. Try again shortly.')
    )
  })
  fastify.addHook('onSend', ({ raw: { socket } }, reply, _payload, done) => {
    // The last answer only: Node ends the connection after this header, even if other answers are still due on it.
    const last = ending && lastOf(fastify.connections.get(socket) ?? [reply.raw])
    if (last === reply.raw) reply.header('connection', 'close')
    done()
  })
}

const lastOf = (answers: Iterable<ServerResponse>) => [...answers].at(-1)

export default fp(closing, { name: 'closing', dependencies: ['connections'] })
