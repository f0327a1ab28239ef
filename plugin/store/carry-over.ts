import { within } from '../within.js'
import { Backlog } from './backlog.js'
import { Carried } from './carried.js'
import { isReply, isUnsent } from './client.js'
import { unavailable } from './in-time.js'
import type { Outage } from './outage.js'
import type { Entry, Settling, Store, Taken } from './store.js'
import { Hearing } from './watched.js'

/** So many are told at a time. */
const TOGETHER = 32

export interface CarryOverOptions {
  /** How long a call may take, in milliseconds; so often is it looked whether the store answers. */
  timeout: number
  /** The present tick of a clock that never steps. */
  now: () => number
  /** Of the store, or of that part of it which has these. */
  outageOf: (entries: readonly Entry[]) => Outage
  /** Whether an error is of what stands under one key. */
  isOfRequest: (error: unknown, node: string) => boolean
  /** Whether an error says that the store takes no writes, though it may still be read. */
  isOfWrites: (error: unknown) => boolean
  /** Hears why so many entries stay uncounted, or may, if they were told. */
  onUncounted: (error: unknown, entries: number) => void
}

/**
 * Carries to a store what was admitted elsewhere while it was lost. The outage is over when the first are told: were it
 * when all are, it would never be where more is admitted meanwhile than told. Each is told once, after the store has
 * answered a look: told again, it could count twice.
 */
export class CarryOver {
  private readonly backlog: Backlog
  private readonly carrying = new Map<Outage, Promise<void>>()
  /** What waits no more, and has no answer yet. */
  private readonly telling = new Set<Carried>()
  private timer: NodeJS.Timeout | undefined

  constructor(
    private readonly store: Pick<Store, 'count' | 'peek'>,
    private readonly refund: Store['refund'],
    private readonly options: CarryOverOptions
  ) {
    this.backlog = new Backlog(options.outageOf, options.onUncounted)
  }

  /** Whether anything waits to be told, since an outage. */
  waits(outage: Outage): boolean {
    return this.backlog.has(outage)
  }

  /** Whether it may have to be told of anything: also of what waits for a node that others have taken the place of. */
  concerns(outage: Outage): boolean {
    const { backlog } = this
    return !backlog.isEmpty && (backlog.has(outage) || backlog.outages.some(({ lost }) => !lost))
  }

  /**
   * Takes what a store has counted in the place of the lost one.
   * @param uncounted whether the lost one has not, and never will
   * @returns how it is settled in both
   */
  take(taken: readonly Taken[], outage: Outage, store: Settling, uncounted: Promise<boolean>): Settling {
    const at = this.options.now()
    const carried = taken.map(each => new Carried(each, at, uncounted))
    this.backlog.add(outage, carried)
    this.timer ??= setInterval(() => this.look(), this.options.timeout).unref()
    // It came back while this was decided.
    if (!outage.lost) this.look()
    return new Hearing(store, given =>
      this.giveBack(carried.filter(({ taken: { entry } }) => given.some(each => each.entry === entry)))
    )
  }

  /** Finds what is to be told of these, or just is. */
  of(entries: readonly Entry[]): Carried[] {
    return [...this.telling, ...this.backlog.all].filter(({ taken: { entry } }) => {
      const same = ({ identity, spec }: Entry) => identity === entry.identity && spec.name === entry.spec.name
      return entries.some(same)
    })
  }

  /** Tells no more of these, and gives back what was told. */
  async giveBack(carried: readonly Carried[]): Promise<void> {
    await Promise.all(carried.map(each => each.giveBack(this.refund, this.options.timeout)))
  }

  /** Carries what waits for stores that answer. */
  look(): void {
    const idle = ({ outages }: Backlog) => outages.filter(outage => !this.carrying.has(outage))
    for (const outage of idle(this.backlog)) this.backlog.move(outage)
    for (const outage of idle(this.backlog)) {
      const carried = this.carry(outage).finally(() => this.carrying.delete(outage))
      this.carrying.set(outage, carried)
    }
  }

  /** Looks once more, and waits for what is told. */
  async close(): Promise<void> {
    clearInterval(this.timer)
    this.look()
    await Promise.all(this.carrying.values())
    this.backlog.drop('the app ends')
  }

  private async carry(outage: Outage): Promise<void> {
    const waiting = this.backlog.of(outage)
    const asked = performance.now()
    try {
      await this.ask(waiting[0], outage)
      const answers = performance.now()
      while (waiting.length > 0) outage.answered(await this.tell(waiting, outage, answers), asked)
      this.backlog.delete(outage)
    } catch (error) {
      const onlyReads = this.options.isOfWrites(error)
      // Who asks a store that may be read is told its refusals meanwhile.
      if (outage.silent || (outage.lost && !onlyReads)) outage.failed(error, onlyReads)
    }
    if (!this.backlog.isEmpty) return
    clearInterval(this.timer)
    this.timer = undefined
  }

  /** Looks at what one of them is about. @throws when the store does not answer */
  private async ask(first: Carried | undefined, { node }: Outage): Promise<void> {
    const { timeout, isOfRequest } = this.options
    const answer = Promise.resolve(first && this.store.peek([first.taken.entry]))
    await within(answer, timeout, unavailable).catch(error => {
      if (!isOfRequest(error, node)) throw error
    })
  }

  /**
   * Tells of the oldest.
   * @param answers since when the store does
   * @returns whether any was counted
   * @throws why the others have to wait on
   */
  private async tell(waiting: Carried[], outage: Outage, answers: number): Promise<boolean> {
    const { now, timeout, isOfRequest, onUncounted } = this.options
    const some = waiting.splice(0, TOGETHER).filter(({ over }) => !over)
    for (const each of some) this.telling.add(each)
    const told = await Promise.allSettled(some.map(each => each.tell(this.store, now, timeout, answers)))
    for (const each of some) this.telling.delete(each)
    const back: Carried[] = []
    const lost: unknown[] = []
    let failure: unknown
    for (const [i, answer] of told.entries()) {
      if (answer.status === 'fulfilled') continue
      const { reason } = answer
      const ofRequest = isOfRequest(reason, outage.node)
      if (!ofRequest) failure = reason
      // Nothing is counted then.
      if (isUnsent(reason) || (isReply(reason) && !ofRequest)) back.push(some[i] as Carried)
      else lost.push(reason)
    }
    if (lost.length > 0) onUncounted(lost[0], lost.length)
    waiting.unshift(...back)
    if (failure !== undefined) throw failure
    return told.some(answer => answer.status === 'fulfilled' && answer.value !== 0)
  }
}
