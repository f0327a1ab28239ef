import type { FastifyReply, FastifyRequest, FastifyServerOptions } from 'fastify'
import type { Config } from './config-schema.js'

// Only the route is logged: a URL, a header or an address may name a person.
function req(request: FastifyRequest) {
  return { method: request.method, route: request.routeOptions?.url ?? null }
}

function res(reply: FastifyReply) {
  return { statusCode: reply.statusCode, ...req(reply.request) }
}

// Only these members are logged: errors of clients carry what was sent (ioredis: the command; nodemailer: the mail).
function err(error: Error & { code?: unknown }) {
  return { type: error.name, message: error.message, code: error.code, stack: error.stack }
}

/** Takes lines, each with its line break. */
export interface LogStream {
  write(line: string): void
}

const PERSONAL = ['phone', 'to', 'email', 'body', 'text', 'headers', 'params']

export function loggerOptions(config: Config, stream: LogStream): FastifyServerOptions['logger'] {
  return {
    level: config.LOG_LEVEL,
    serializers: { req, res, err } as never,
    redact: { paths: PERSONAL.flatMap(name => [name, `*.${name}`]), censor: '[redacted]' },
    stream
  }
}
