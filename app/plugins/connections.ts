import type { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { linger } from '../linger.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Every connection, with the answers that are under way on it. */
    connections: ReadonlyMap<Socket, ReadonlySet<ServerResponse>>
    /** By connection, the last request that was answered before it had arrived in full. */
    answeredEarly: WeakMap<Socket, IncomingMessage>
    /** Ends a connection with this answer: requests that follow on it are not carried out (RFC 9112, section 9.6). */
    endWith(answer: ServerResponse): void
  }
}

/** More requests than a client pipelines that reads its answers. */
const MAX_UNDER_WAY = 10

/**
 * Closes a connection with too many requests under way: if a client goes on sending without reading, its answers would
 * pile up in memory, each with an open file if it is served from one. Also carries out no request that comes on a
 * connection after the answer that ends it: since a connection ends in stages, more requests may be read.
 */
const connections: FastifyPluginAsync = async fastify => {
  const answers = new Map<Socket, Set<ServerResponse>>()
  const ends = new WeakMap<Socket, ServerResponse>()
  const isBehindEnd = (answer: ServerResponse) => {
    const { socket } = answer.req
    const end = ends.get(socket)
    if (end === undefined) return false
    const order = [...(answers.get(socket) ?? [])]
    return order.indexOf(answer) > order.indexOf(end)
  }
  fastify.decorate('connections', answers)
  const early = new WeakMap<Socket, IncomingMessage>()
  fastify.decorate('answeredEarly', early)
  fastify.decorate('endWith', (answer: ServerResponse) => {
    if (!isBehindEnd(answer)) ends.set(answer.req.socket, answer)
  })
  // No limit: beyond a thousand headers Node 20 would silently drop the rest, even a proxy's with the client's address.
  fastify.server.maxHeadersCount = 0

  fastify.server.on('connection', (socket: Socket) => {
    const underWay = new Set<ServerResponse>()
    answers.set(socket, underWay)
    // Node calls this to end the connection after an answer with `connection: close`.
    socket.destroySoon = () => linger(socket)
    socket.once('close', () => {
      answers.delete(socket)
      // Node closes the first answer only. The others would wait for the socket for ever, with their files open.
      for (const response of underWay) {
        if (response.socket === null) response.assignSocket(new Socket().destroy())
      }
    })
  })
  const begin = (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    const underWay = answers.get(socket)
    if (underWay === undefined) return
    underWay.add(response)
    response.once('close', () => {
      underWay.delete(response)
      if (!request.complete) early.set(socket, request)
    })
    if (underWay.size > MAX_UNDER_WAY) socket.destroy()
  }
  // Before Fastify's own listener, which runs the hooks.
  fastify.server.prependListener('request', begin)
  fastify.server.prependListener('checkExpectation', begin)

  fastify.addHook('onRequest', ({ raw: { socket } }, reply, done) => {
    // Requests that were read together with the one too many still get here, and are dropped, too.
    if (socket.destroyed) reply.hijack()
    else done()
  })
  fastify.addHook('onSend', (_request, reply, _payload, done) => {
    if (reply.getHeader('connection') === 'close') fastify.endWith(reply.raw)
    done()
  })
  // As late as possible: of requests that were read together, an earlier one may end the connection before this.
  fastify.addHook('preHandler', (_request, reply, done) => {
    if (isBehindEnd(reply.raw)) reply.hijack()
    else done()
  })
}

export default fp(connections, { name: 'connections' })
