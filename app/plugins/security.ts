import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import helmet, { type HelmetOptions } from 'helmet'

const OPTIONS: HelmetOptions = {
  contentSecurityPolicy: {
    // The defaults of helmet would allow scripts and styles again.
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] }
  },
  // A page of another origin that may call the API (CORS) must be able to read the answer.
  crossOriginResourcePolicy: { policy: 'cross-origin' }
}

/**
 * Sets headers by which browsers protect what they show (OWASP Secure Headers). Answers are for programs and must not
 * be cached. The pages at /docs have a policy of their own.
 */
const security: FastifyPluginAsync = async fastify => {
  const headers = headersOf(OPTIONS)
  fastify.addHook('onRequest', (_request, reply, done) => {
    reply.headers(headers)
    done()
  })
  fastify.addHook('onSend', (_request, reply, _payload, done) => {
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
    done()
  })
}

/**
 * The headers that helmet sets, found out once. Helmet sets them on Node's response, which for each request would make
 * Node write all headers the slow way.
 */
function headersOf(options: HelmetOptions): OutgoingHttpHeaders {
  const request = new IncomingMessage(new Socket())
  const response = new ServerResponse(request)
  helmet(options)(request, response, () => {})
  return response.getHeaders()
}

export default fp(security, { name: 'security' })
