import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** Goes on after an answer; the app does not close before. @param task must not reject */
    afterwards(task: Promise<void>): Promise<void>
    /** Waits for what goes on after answers. */
    unfinished(): Promise<void>
  }
}

interface Options {
  /** How long the app waits for an answer when it closes, in milliseconds. */
  patienceMs: number
}

/**
 * What the end of the app waits for. Goes last of what takes part in an answer: when its `onSend` hook runs, all that was
 * counted and kept is settled.
 */
const afterwards: FastifyPluginAsync<Options> = async (fastify, { patienceMs }) => {
  const tasks = new Set<Promise<void>>()
  /** Ends the wait for an answer. */
  const waits = new WeakMap<FastifyRequest, () => void>()

  // A server that closes does not wait for the answer to a client that has hung up. Its message would still go, but after
  // the end, when it can be neither counted nor audited.
  async function answered(request: FastifyRequest): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>(resolve => {
      waits.set(request, resolve)
      timer = setTimeout(resolve, patienceMs)
    })
    clearTimeout(timer)
  }
  // Some requests come here twice: their route answers as if it were not there, as to the preflight of a stranger's page.
  fastify.addHook('preHandler', (request, _reply, done) => {
    if (!waits.has(request)) fastify.afterwards(answered(request))
    done()
  })
  fastify.addHook('onSend', (request, _reply, _payload, done) => {
    waits.get(request)?.()
    done()
  })

  fastify.decorate('afterwards', async (task: Promise<void>) => {
    tasks.add(task)
    await task.finally(() => tasks.delete(task))
  })
  fastify.decorate('unfinished', async () => {
    while (tasks.size > 0) await Promise.all(tasks)
  })
  fastify.addHook('onClose', () => fastify.unfinished())
}

export default fp(afterwards, { name: 'afterwards' })
