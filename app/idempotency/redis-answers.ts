import type { Redis } from 'ioredis'
import { problem } from '../problem.js'
import { type Scripts, scriptsOf } from '../scripts.js'
import { withTimeout } from '../with-timeout.js'
import type { Answers, Begun, Bounds, Slot } from './answers.js'

// The braces keep both keys of a scope on one node of a cluster.
const keysOf = ({ scope }: Slot) => [`idempotency:{${scope}}`, `idempotency:{${scope}}:ends`] as const

/** Answers in Redis, shared by all instances. */
export class RedisAnswers implements Answers {
  private readonly scripts: Scripts<'begin' | 'finish' | 'free'>

  /**
   * @param client must have no command timeout of its own
   * @param timeoutMs how long to wait for an answer of Redis
   */
  constructor(
    client: Redis,
    private readonly bounds: Bounds,
    private readonly timeoutMs = 1_000
  ) {
    this.scripts = scriptsOf(client, 'idempotency', ['begin', 'finish', 'free'])
  }

  async begin(slot: Slot, body: string, token: string, leaseMs: number): Promise<Begun> {
    const { perScope, keepMs } = this.bounds
    const begun = this.scripts.begin(keysOf(slot), slot.key, body, token, leaseMs, perScope, keepMs)
    // The slot may have been taken, and nobody will finish it.
    const takeBack = () => this.askToFree(slot, token)
    const [is, answer] = (await this.answered(begun, takeBack)) as [Begun['is'], string]
    return is === 'finished' ? { is, answer } : { is }
  }

  async finish(slot: Slot, token: string, answer: string): Promise<boolean> {
    const { keepMs } = this.bounds
    const ask = () => this.scripts.finish(keysOf(slot), slot.key, token, answer, keepMs)
    return (await this.answered(ask(), ask)) === 1
  }

  async free(slot: Slot, token: string): Promise<void> {
    const ask = () => this.askToFree(slot, token)
    await this.answered(ask(), ask)
  }

  private askToFree(slot: Slot, token: string): Promise<unknown> {
    return this.scripts.free(keysOf(slot), slot.key, token)
  }

  /** @param takeBack undoes the command, or repeats it if it may run twice; see `withTimeout` */
  private answered<T>(command: Promise<T>, takeBack: () => Promise<unknown>): Promise<T> {
    return withTimeout(command, this.timeoutMs, unavailable, takeBack)
  }
}

const unavailable = () =>
  problem(
    503,
    'IDEMPOTENCY_UNAVAILABLE',
    'It cannot be checked now whether this Idempotency-Key was used before.'
  )
