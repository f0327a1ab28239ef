import type { FastifyError, FastifyReply } from 'fastify'
import { invalid } from './invalid.js'
import { en } from './locales/en.js'
import { translate } from './locales/translate.js'
import { PROBLEM_JSON, type ProblemDocument, type ProblemError, problemDocument } from './problem.js'

/** Whatever Fastify, the plugin or the app may throw. */
export type Failure = FastifyError & Partial<ProblemError>

/** The problem document that answers an error. An error that is not meant for clients becomes a plain 500. */
export function documentOf(error: Failure): ProblemDocument {
  if (error.problem !== undefined) return error.problem
  if (error.validation) return invalid(error.validation)
  const { statusCode = 500, code = '', message } = error
  // The errors of Fastify and the plugin that are meant for clients.
  const known = (en.problems as Record<string, string | undefined>)[code]
  if (known !== undefined) return problemDocument(statusCode, code, known, keyOf(code, message))
  if (statusCode >= 400 && statusCode < 500) {
    return problemDocument(statusCode, 'REFUSED', 'The request was refused.')
  }
  return problemDocument(500, 'INTERNAL', 'Something went wrong here; the log tells what.')
}

// The plugin names the key of a rule only in its message: "body.phone is missing …".
function keyOf(code: string, message: string): object {
  return code.startsWith('FST_SEND_LIMIT_KEY_') ? { key: message.split(' is ', 1)[0] } : {}
}

/** Answers with a problem in the language of the request; `instance` is the id of the log (RFC 9457, section 3.1.5). */
export function sendProblem(reply: FastifyReply, document: ProblemDocument): FastifyReply {
  // A request that fails before it is routed has met no hook: nothing is decorated, and no header is set.
  const locale = reply.request.locale ?? reply.server.defaultLocale ?? 'en'
  const others = reply.getHeader('vary')
  const vary = others === undefined ? 'accept-language' : `${others}, accept-language`
  return reply
    .code(document.status)
    .type(PROBLEM_JSON)
    .headers({ 'content-language': locale, 'cache-control': 'no-store', vary })
    .serializer(JSON.stringify)
    .send({ ...translate(document, locale), instance: `urn:uuid:${reply.request.id}` })
}
