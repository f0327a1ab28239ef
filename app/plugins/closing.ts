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
    for (const [socket, underWay] of fastify.connections) if (underWay.size === 0) socket.destroy()
  })
  fastify.addHook('onRequest', (_request, reply, done) => {
    if (!ending) return done()
    sendProblem(
      reply,
      problemDocument(503, 'SHUTTING_DOWN', 'This server is shutting down. Try again shortly.')
    )
  })
  fastify.addHook('onSend', (_request, reply, _payload, done) => {
    if (ending) reply.header('connection', 'close')
    done()
  })
}

export default fp(closing, { name: 'closing', dependencies: ['connections'] })
