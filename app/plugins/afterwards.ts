import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** Waits for a task that goes on after an answer; the app closes only after it. @param task must not reject */
    afterwards(task: Promise<void>): Promise<void>
    /** Waits for all tasks that go on after answers. */
    unfinished(): Promise<void>
  }
}

interface Options {
  /** How long the app waits for an answer when it closes, in milliseconds. */
  patienceMs: number
}

/**
 * Lets the end of the app wait for answers and what goes on after them. Register this plugin after all others that take
 * part in an answer: when its `onSend` hook runs, all that was counted and kept is settled.
 */
const afterwards: FastifyPluginAsync<Options> = async (fastify, { patienceMs }) => {
  const tasks = new Set<Promise<void>>()
  /** By request, the function that ends the wait for its answer. */
  const waits = new WeakMap<FastifyRequest, () => void>()

  // A closing server does not wait for the answer to a client that has hung up. The message would still be sent, but
  // after the end, when it can be neither counted nor audited.
  async function untilAnswered(request: FastifyRequest): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>(resolve => {
      waits.set(request, resolve)
      timer = setTimeout(resolve, patienceMs)
    })
    clearTimeout(timer)
  }
  // Some requests get here twice: a route may call `callNotFound`, as for the preflight of an unknown origin's page.
  fastify.addHook('preHandler', (request, _reply, done) => {
    if (!waits.has(request)) fastify.afterwards(untilAnswered(request))
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
