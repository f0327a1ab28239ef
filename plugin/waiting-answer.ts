import type { FastifyReply } from 'fastify'

/**
 * Makes a reply whose answer waits for a refund look sent to the handler: whatever it sends from now on comes too late,
 * and it can hijack nothing.
 * @returns ends that, and sets the status of the answer again
 */
export function holdBack(reply: FastifyReply): () => void {
  const { statusCode } = reply
  Object.defineProperty(reply, 'sent', { value: true, configurable: true })
  reply.hijack = () => reply
  return () => {
    Reflect.deleteProperty(reply, 'sent')
    Reflect.deleteProperty(reply, 'hijack')
    if (reply.statusCode !== statusCode) reply.code(statusCode)
  }
}

/**
 * Listens for errors of a stream that waits for a refund. Nobody else listens yet, so an error would end the process.
 * Fastify finds the error when it sends the stream.
 */
export function handleErrors(payload: unknown): void {
  const { pipe, on } = (payload ?? {}) as Partial<NodeJS.ReadableStream>
  if (typeof pipe === 'function' && typeof on === 'function') on.call(payload, 'error', () => {})
}
