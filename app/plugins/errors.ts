import { isUtf8 } from 'node:buffer'
import { errorCodes, type FastifyPluginAsync, type FastifyReply, type FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { answerExpectation, isUnbounded, refuseUnbounded, requestTimeout } from '../broken-request.js'
import { documentOf, type Failure, sendProblem } from '../failure.js'
import { problem, problemDocument } from '../problem.js'
import { CodeProblemSchema } from '../schemas/captcha.js'
import { mayBeLeftOut } from '../schemas/left-out.js'
import { ProblemSchema } from '../schemas/problem.js'

/** Answers every error by a problem document. What is not meant for clients goes only to the log. */
const errors: FastifyPluginAsync = async fastify => {
  fastify.addSchema(ProblemSchema)
  fastify.addSchema(CodeProblemSchema)
  // Bodies are JSON. By default Fastify accepts plain text, too.
  fastify.removeContentTypeParser(['text/plain', 'application/json'])
  const parse = fastify.getDefaultJsonParser('error', 'error')
  fastify.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    if (!UNENCODED.test(request.headers['content-encoding'] ?? '')) {
      const error = problem(415, 'CONTENT_ENCODED', 'Send the body as it is, without content-encoding.')
      return done(Object.assign(error, { headers: { 'accept-encoding': 'identity' } }))
    }
    // JSON must be UTF-8 (RFC 8259, section 8.1): otherwise messages would go out with replacement characters.
    if (!isUtf8(body)) return done(new errorCodes.FST_ERR_CTP_INVALID_JSON_BODY())
    return parse(request, body.toString(), done)
  })

  // Some clients send a content type without a body. Whether a chunked body is empty is known only when it is read.
  fastify.addHook('preParsing', ({ headers, routeOptions }, _reply, _payload, done) => {
    const empty = headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0'
    if (empty && mayBeLeftOut(routeOptions.schema?.body)) delete headers['content-type']
    done()
  })

  // RFC 9112, sections 3.2 and 6.1.
  fastify.addHook('onRequest', ({ headers: { host }, raw }, reply, done) => {
    if (isUnbounded(raw)) {
      refuseUnbounded(reply)
    } else if (host === undefined && raw.httpVersion === '1.1') {
      done(problem(400, 'HOST_MISSING', 'The header Host is missing.'))
    } else if (!HOST.test(host ?? '')) {
      done(problem(400, 'HOST_INVALID', 'The header Host must be sent once and name a host.'))
    } else {
      done()
    }
  })
  fastify.server.on('checkExpectation', (_request, response) => {
    fastify.endWith(response)
    answerExpectation(response, fastify.defaultLocale)
  })

  fastify.setErrorHandler<Failure>((error, request, reply) => {
    // Fastify ends the connection after a body that it cannot take, since more may come. If it is complete, none will.
    if (request.raw.complete) reply.removeHeader('connection')
    if (isWrongAddress(error, request)) return answerWrongAddress(request, reply)
    // `complete` is undefined for an injected request.
    const arriving = request.raw.complete === false
    const cutOff = error.code === 'FST_ERR_HANDLER_TIMEOUT'
    // The handler goes on. If it answers, too, Fastify logs the URL, which may name a person.
    if (cutOff) request.raw.url = request.routeOptions.url ?? ''
    const late = arriving && cutOff
    const document = late ? requestTimeout() : documentOf(error)
    if (late) reply.header('connection', 'close')
    const { status, code } = document
    if (status === 500) request.log.error({ err: error }, 'failed')
    else if (status > 500) request.log.warn({ status, code, cause: causeOf(error) }, 'failed')
    else request.log.debug({ status, code }, 'refused')
    return sendProblem(reply.headers(error.headers ?? {}), document)
  })

  fastify.setNotFoundHandler(answerWrongAddress)
}

/** A host, perhaps with a port (RFC 9110, section 7.2), and no space, as Node puts between headers that came twice. */
const HOST = /^(\[[\w:.%~-]+\]|([\w.~!$&'()*+,;=-]|%[\dA-F]{2})*)(:\d*)?$/i
const UNENCODED = /^(identity)?$/i

/** Codes of errors in a body. At an address that takes no such request, the body is not what is wrong. */
const OF_A_BODY = /^(FST_ERR_(CTP|ROUTE_MISSING)_|CONTENT_)/

/** Whether the address or method is wrong: a bad parameter may be a word of another address, or nothing at all. */
function isWrongAddress({ code, validationContext }: Failure, request: FastifyRequest): boolean {
  if (validationContext !== 'params' && !OF_A_BODY.test(code)) return false
  return !allowedMethods(request).includes(request.method)
}

// For the log. Errors above 500 are answered on purpose: why is in their cause, or in a message that is not for
// clients, as of a slow filter.
const causeOf = ({ cause, problem, message }: Failure) =>
  cause instanceof Error ? cause.message : problem === undefined ? message : undefined

/** The methods that the address of a request takes, as the router finds them. */
function allowedMethods({ server, url }: FastifyRequest): string[] {
  const found = server.supportedMethods.flatMap(method => {
    const route = server.findRoute({ method, url })
    return route === null ? [] : [{ method, params: Object.entries(route.params) }]
  })
  // A wildcard route matches addresses where there is nothing, and no parameter is empty.
  const taking = found.filter(({ params }) => params.every(([name, value]) => name !== '*' && value !== ''))
  // A fixed path takes precedence over a parameter: /v1/captcha/verify names no code.
  const spelled = taking.filter(({ params }) => params.length === 0)
  return (spelled.length > 0 ? spelled : taking).map(({ method }) => method).sort()
}

function answerWrongAddress(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const methods = allowedMethods(request)
  if (methods.length === 0) {
    return sendProblem(reply, problemDocument(404, 'NOT_FOUND', 'There is nothing at this address.'))
  }
  const document = problemDocument(405, 'METHOD_NOT_ALLOWED', 'This address takes {methods}.', { methods })
  return sendProblem(reply.header('allow', methods.join(', ')), document)
}

export default fp(errors, { name: 'errors' })
