import type { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { linger } from '../linger.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** Every connection, with the answers that are under way on it. */
    connections: ReadonlyMap<Socket, ReadonlySet<ServerResponse>>
    /** Of a connection the last request that was answered before all of it had come. */
    answeredEarly: WeakMap<Socket, IncomingMessage>
    /** Tells that a connection ends with this answer: what is asked behind it is not done (RFC 9112, section 9.6). */
    endWith(answer: ServerResponse): void
  }
}

/** More than clients pipeline that read what they are answered. */
const MAX_UNDER_WAY = 10

/**
 * Closes a connection on which too many requests are under way: who asks on without reading the answers would have them
 * pile up in memory, each with its file when it comes from one. And carries out nothing that is asked on a connection after
 * the answer that ends it: the end comes in stages.
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
  // Past a thousand Node 20 would leave headers out without a word, also a proxy's on the client's address.
  fastify.server.maxHeadersCount = 0

  fastify.server.on('connection', (socket: Socket) => {
    const underWay = new Set<ServerResponse>()
    answers.set(socket, underWay)
    // So Node ends it behind an answer that says so.
    socket.destroySoon = () => linger(socket)
    socket.once('close', () => {
      answers.delete(socket)
      // Node closes the first of them alone. The others would wait for the socket for ever, and their files stay open.
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
  // Before Fastify takes it to the hook.
  fastify.server.prependListener('request', begin)
  fastify.server.prependListener('checkExpectation', begin)

  fastify.addHook('onRequest', ({ raw: { socket } }, reply, done) => {
    // What was read together with the one too many still comes here, and is dropped, too.
    if (socket.destroyed) reply.hijack()
    else done()
  })
  fastify.addHook('onSend', (_request, reply, _payload, done) => {
    if (reply.getHeader('connection') === 'close') fastify.endWith(reply.raw)
    done()
  })
  // The latest that can be: what was read together comes here in turn.
  fastify.addHook('preHandler', (_request, reply, done) => {
    if (isBehindEnd(reply.raw)) reply.hijack()
    else done()
  })
}

export default fp(connections, { name: 'connections' })
