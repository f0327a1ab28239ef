import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Decision } from '../../plugin/index.js'
import type { Clock } from '../clock.js'
import { undeliveredOf } from '../senders/deliver.js'
import type { Receipt } from '../senders/sender.js'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Sends the request's message and tells the audit trail what became of it. To a recipient who is blocked nothing is
     * sent: that this is asked for at all means that the answer conceals it.
     * @returns null when nothing was sent
     * @throws a problem that says why the message could not be sent
     */
    dispatch(request: FastifyRequest, decision: Decision | null): Promise<Receipt | null>
    /** Goes on after an answer; the app does not close before. @param task must not reject */
    afterwards(task: Promise<void>): Promise<void>
    /** Waits for what goes on after answers. */
    unfinished(): Promise<void>
  }
}

interface Options {
  clock: Clock
  /** How long the app waits for an answer when it closes, in milliseconds. */
  patienceMs: number
}

/** Goes last of what takes part in an answer: when its `onSend` hook runs, all that was counted and kept is settled. */
const dispatch: FastifyPluginAsync<Options> = async (fastify, { clock, patienceMs }) => {
  const tasks = new Set<Promise<void>>()
  /** Ends the wait for an answer. */
  const waits = new WeakMap<FastifyRequest, () => void>()

  // Of a client that has hung up the server waits for no answer, but its message would go all the same: after the end, when
  // nothing can be counted or told of it any more.
  async function answered(request: FastifyRequest): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>(resolve => {
      waits.set(request, resolve)
      timer = setTimeout(resolve, patienceMs)
    })
    clearTimeout(timer)
  }
  fastify.addHook('preHandler', (request, _reply, done) => {
    fastify.afterwards(answered(request))
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

  fastify.decorate('dispatch', async (request: FastifyRequest, decision: Decision | null) => {
    const { message, standing, purpose } = request
    if (message === null) throw new Error('there is no message to send')
    const { template, segments } = message
    const fact = {
      event: 'send' as const,
      template,
      ...(segments !== undefined && { segments }),
      ...(purpose !== null && { purpose })
    }
    if (standing === 'blocked') {
      fastify.audit({ ...fact, sender: 'none', outcome: 'suppressed' }, request)
      return null
    }
    const began = clock.monotonic()
    const latencyMs = () => Math.round(clock.monotonic() - began)
    try {
      const receipt = await fastify.deliver(message, decision)
      fastify.audit({ ...fact, ...receipt, outcome: 'sent', latencyMs: latencyMs() }, request)
      return receipt
    } catch (error) {
      const { outcome, sender, code } = undeliveredOf(error)
      fastify.audit(
        { ...fact, sender, outcome, ...(code !== undefined && { code }), latencyMs: latencyMs() },
        request
      )
      throw error
    }
  })
}

export default fp(dispatch, { name: 'dispatch', dependencies: ['audit', 'senders', 'requests'] })
