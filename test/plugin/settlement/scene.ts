import assert from 'node:assert/strict'
import type { FastifyInstance, RouteHandlerMethod, RouteOptions } from 'fastify'
import type { Decision, Rule } from '../../../plugin/index.js'
import { until } from '../../helper/until.js'
import { DAY, type Opened, type Place } from './places.js'

const key = { value: 'query.id' }
const id = 'somebody'

/** One rule of each kind, all on the same identity. */
export const rules: Rule[] = [
  { name: 'guard', key, limits: [{ max: 9, window: '60s' }], counts: 'attempts' },
  {
    name: 'send',
    key,
    limits: [
      { max: 3, window: '60s' },
      { max: 5, window: '1h' },
      { max: 7, per: 'day' }
    ]
  },
  { name: 'wrong', key, limits: [{ max: 3, window: '60s' }], counts: 'failures' },
  { name: 'flight', key, lock: '30s' }
]
export const url = `/send?id=${id}`

/** What is counted; `send` stands for all three of its limits. */
interface Counts {
  guard: number
  send: number
  wrong: number
}

/** A request in a limited route, watched. */
export class Scene {
  decision: Decision | undefined
  /** Whether a time-out may come before the handler. */
  timed = false
  /** At each look, whether the lock was held. */
  readonly looks: Promise<boolean>[] = []
  /** Resolves when a handler that outlives its reply may go on. */
  readonly onward: Promise<void>
  goOn!: () => void

  constructor(
    private readonly place: Place,
    private readonly opened: Opened,
    /** In milliseconds. */
    readonly handlerTimeout: number
  ) {
    this.onward = new Promise(resolve => {
      this.goOn = resolve
    })
  }

  get app(): FastifyInstance {
    return this.opened.app
  }

  route(handler: RouteHandlerMethod, options: Partial<RouteOptions> = {}): void {
    const limit = rules.map(rule => rule.name)
    const watched: RouteHandlerMethod = function (request, reply) {
      scene.decision = reply.limit ?? undefined
      scene.look()
      return handler.call(this, request, reply)
    }
    const scene = this
    this.timed = options.handlerTimeout !== undefined
    this.app.route({ method: 'GET', url: '/send', config: { limit }, ...options, handler: watched })
  }

  /** Asks whether the lock is held now; the store answers in order. */
  look(): void {
    this.looks.push(
      this.app.limit.peek({ flight: id }).then(({ rules: [rule] }) => rule?.limits[0]?.remaining === 0)
    )
  }

  async counts(): Promise<Counts> {
    const [guard = -1, send = -1, hour, day, wrong = -1] = await this.opened.used({
      guard: id,
      send: id,
      wrong: id
    })
    assert.deepEqual([hour, day], [send, send], 'all limits of a rule count the same')
    return { guard, send, wrong }
  }

  /** Waits until the lock is free. */
  free(): Promise<void> {
    return until(async () => (await this.opened.used({ flight: id }))[0] === 0, 'a free lock')
  }

  /** Settles again what is settled, now and after the next send. @returns what is counted after each */
  async settleAgain(): Promise<{ now: Counts; later: Counts }> {
    await this.decision?.refund()
    this.decision?.keep()
    const now = await this.counts()
    this.place.advance(DAY)
    const next = await this.app.limit.reserve({ guard: id, send: id, wrong: id, flight: id })
    assert.ok(next.allowed, 'the next one is admitted')
    next.keep()
    await this.decision?.refund()
    this.decision?.keep()
    this.decision?.end()
    assert.equal((await this.opened.used({ flight: id }))[0], 1, 'the lock of the next one is not touched')
    next.end()
    return { now, later: await this.counts() }
  }
}
