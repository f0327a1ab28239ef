import type { ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'

/** More than clients pipeline that read what they are answered. */
const MAX_UNDER_WAY = 10

/**
 * Closes a connection on which too many requests are under way: who asks on without reading the answers would have them
 * pile up in memory, each with its file when it comes from one.
 */
const pipelining: FastifyPluginAsync = async fastify => {
  const answers = new WeakMap<Socket, Set<ServerResponse>>()

  function underWayOn(socket: Socket): Set<ServerResponse> {
    const known = answers.get(socket)
    if (known !== undefined) return known
    const underWay = new Set<ServerResponse>()
    answers.set(socket, underWay)
    // Node closes the first of them alone. The others would wait for the socket for ever, and their files stay open.
    socket.once('close', () => {
      for (const response of underWay) {
        if (response.socket === null) response.assignSocket(new Socket().destroy())
      }
    })
    return underWay
  }

  fastify.addHook('onRequest', ({ raw: { socket } }, reply, done) => {
    const underWay = underWayOn(socket)
    if (underWay.size < MAX_UNDER_WAY) {
      const { raw } = reply
      underWay.add(raw)
      raw.once('close', () => underWay.delete(raw))
      return done()
    }
    // What was read together with this one still comes here, and is dropped, too.
    reply.hijack()
    socket.destroy()
  })
}

export default fp(pipelining, { name: 'pipelining' })
