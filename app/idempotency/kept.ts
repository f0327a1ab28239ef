import type { FastifyReply } from 'fastify'

/** The largest body that is kept, in bytes. */
const MAX_BYTES = 16_384
const KEPT_HEADERS = ['content-type', 'content-language']

interface Kept {
  status: number
  headers: Record<string, string>
  body: string
}

/** Whether a repetition gets this answer again, not another try. Also after 504: the message may have been sent. */
export const isKept = (status: number) => (status >= 200 && status < 300) || status === 422 || status === 504

/** @returns the answer as text; undefined when its body is too large or is not text */
export function textOf(reply: FastifyReply, payload: unknown): string | undefined {
  const body = payload ?? ''
  if (typeof body !== 'string' || Buffer.byteLength(body) > MAX_BYTES) return undefined
  const given = KEPT_HEADERS.map(name => [name, reply.getHeader(name)])
  const headers = Object.fromEntries(given.filter(([, value]) => value !== undefined))
  return JSON.stringify({ status: reply.statusCode, headers, body } satisfies Kept)
}

/** Sends the kept answer again. */
export function replay(reply: FastifyReply, text: string): FastifyReply {
  const { status, headers, body } = JSON.parse(text) as Kept
  // When a reply has its own serializer, Fastify leaves the content type as it is.
  reply.code(status).headers(headers).header('idempotency-replayed', 'true').serializer(asIs)
  return reply.send(body === '' ? undefined : body)
}

const asIs = (text: string) => text
