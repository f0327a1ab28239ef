import { StoreUnavailableError } from '../errors.js'
import type { CarryOver } from './carry-over.js'
import { isQueued } from './client.js'
import { Late } from './late.js'
import type { Outage } from './outage.js'
import type { Reserved, Reserver } from './reserver.js'
import { isSend, type StandIn } from './stand-in.js'
import type { Entry, Facts, Taken } from './store.js'
import { takenOf } from './taken.js'
import { Hearing } from './watched.js'

/** What decides while a store does not: a memory, a 503 (`deny`), or nobody (`allow`). */
export class Otherwise {
  private closed = false

  /**
   * @param store settles what the lost one has counted
   * @param onKept hears why what was counted by an answer that came too late could not be given back
   */
  constructor(
    private readonly means: StandIn | 'deny' | 'allow',
    private readonly store: Reserver['store'],
    private readonly carryOver: CarryOver,
    private readonly onKept: (error: unknown) => void
  ) {}

  /**
   * Decides, and has the lost store told of it when that is back.
   * @param uncounted whether the lost store has not counted it, and never will
   */
  async reserve(
    outage: Outage,
    entries: readonly Entry[],
    token: string,
    uncounted = Promise.resolve(true)
  ): Promise<Reserved> {
    const reserved = await this.decide(entries, token)
    const { facts, store } = reserved
    const taken = facts?.[1] === 1 ? takenOf(entries, facts).filter(({ entry }) => isSend(entry)) : []
    if (taken.length === 0) return reserved
    return { facts, store: this.carryOver.take(taken, outage, store, uncounted) }
  }

  /**
   * Decides in the place of an answer that failed, or could not be waited for. What the store admits too late goes with
   * what was decided here: both stay counted, or both are given back.
   */
  async reserveAfter(
    answer: Promise<Facts>,
    error: unknown,
    outage: Outage,
    entries: readonly Entry[],
    token: string
  ): Promise<Reserved> {
    const late = new Late(entries, token, answer, this.store.refund, this.onKept)
    const uncounted = answer.then(
      facts => facts[1] !== 1,
      () => true
    )
    let admitted = false
    try {
      const { facts, store } = isQueued(error)
        ? await this.decide(entries, token)
        : await this.reserve(outage, entries, token, uncounted)
      admitted = facts === null || facts[1] === 1
      if (facts === null) {
        // Counted nowhere, nobody will release its locks.
        late.giveBack(({ spec }) => spec.kind === 'lock')
        return { facts, store, takeBack: () => late.giveBack() }
      }
      const given = (taken: readonly Taken[]) =>
        late.giveBack(entry => taken.some(each => each.entry === entry))
      return { facts, store: new Hearing(store, given) }
    } finally {
      // What was refused was not sent.
      if (!admitted) late.giveBack()
    }
  }

  /**
   * Holds the slots until the store has answered, which has still to be told of what this knows: so both have to admit.
   * @returns `refused` where this does not; what gives the slots back
   */
  async hold(entries: readonly Entry[], token: string): Promise<{ refused?: Reserved; release: () => void }> {
    const { means } = this
    const reserved = await this.decide(entries, token)
    const { facts } = reserved
    if (facts?.[1] !== 1) return { refused: reserved, release() {} }
    return { release: () => typeof means === 'object' && means.release(takenOf(entries, facts), token) }
  }

  peek(entries: readonly Entry[]): Promise<Reserved> {
    return this.ask(memory => memory.peek(entries))
  }

  close(): void {
    this.closed = true
  }

  private decide(entries: readonly Entry[], token: string): Promise<Reserved> {
    return this.ask(memory => memory.reserve(entries, token))
  }

  private async ask(call: (memory: ReturnType<StandIn['caughtUp']>) => Facts): Promise<Reserved> {
    const { means, store } = this
    if (typeof means === 'object') await means.catchUp()
    // After the end of the app, what this memory counts would reach nobody: so it decides no more.
    if (means === 'deny' || this.closed) throw new StoreUnavailableError()
    if (means === 'allow') return { facts: null, store }
    const memory = means.caughtUp()
    return { facts: call(memory), store: memory }
  }
}
