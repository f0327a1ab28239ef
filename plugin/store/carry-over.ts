import { within } from '../within.js'
import { Carried } from './carried.js'
import { isReply, isUnsent } from './client.js'
import { unavailable } from './in-time.js'
import type { Outage } from './outage.js'
import type { Entry, Settling, Store, Taken } from './store.js'
import { Hearing } from './watched.js'

/** So many entries wait for a store, or for a node of it, at most; of more the oldest sixteenth goes. */
const MOST = 2 ** 16
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
  private readonly waiting = new Map<Outage, Carried[]>()
  private readonly carrying = new Map<Outage, Promise<void>>()
  /** What waits no more, and has no answer yet. */
  private readonly telling = new Set<Carried>()
  private timer: NodeJS.Timeout | undefined

  constructor(
    private readonly store: Pick<Store, 'count' | 'peek'>,
    private readonly refund: Store['refund'],
    private readonly options: CarryOverOptions
  ) {}

  /** Whether anything waits to be told, since an outage. */
  waits(outage: Outage): boolean {
    return this.waiting.has(outage)
  }

  /** Whether it may have to be told of anything: also of what waits for a node that others have taken the place of. */
  concerns(outage: Outage): boolean {
    return this.waiting.size > 0 && (this.waits(outage) || [...this.waiting.keys()].some(({ lost }) => !lost))
  }

  /**
   * Takes what a store has counted in the place of the lost one.
   * @param uncounted whether the lost one has not, and never will
   * @returns how it is settled in both
   */
  take(taken: readonly Taken[], outage: Outage, store: Settling, uncounted: Promise<boolean>): Settling {
    const at = this.options.now()
    const carried = taken.map(each => new Carried(each, at, uncounted))
    this.wait(outage, carried)
    return new Hearing(store, given =>
      this.giveBack(carried.filter(({ taken: { entry } }) => given.some(each => each.entry === entry)))
    )
  }

  /** Finds what is to be told of these, or just is. */
  of(entries: readonly Entry[]): Carried[] {
    return [...this.telling, ...[...this.waiting.values()].flat()].filter(({ taken: { entry } }) => {
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
    for (const [outage, waiting] of this.waiting) {
      if (this.carrying.has(outage) || this.moves(outage, waiting)) continue
      const carried = this.carry(outage, waiting).finally(() => this.carrying.delete(outage))
      this.carrying.set(outage, carried)
    }
  }

  /** Looks once more, and waits for what is told. */
  async close(): Promise<void> {
    clearInterval(this.timer)
    this.look()
    await Promise.all(this.carrying.values())
    for (const waiting of this.waiting.values()) this.drop(waiting, 'the app ends')
  }

  private wait(outage: Outage, carried: readonly Carried[]): void {
    const waiting = this.waiting.get(outage) ?? []
    waiting.push(...carried)
    if (waiting.length > MOST) this.drop(waiting.splice(0, MOST / 16), `more than ${MOST} wait`)
    this.waiting.set(outage, waiting)
    this.timer ??= setInterval(() => this.look(), this.options.timeout).unref()
    // It came back while this was decided.
    if (!outage.lost) this.look()
  }

  /**
   * Has what waits for a node that was not known, or has lost its slots, wait for those that have it.
   * @returns whether any does
   */
  private moves(outage: Outage, waiting: readonly Carried[]): boolean {
    const nodeOf = ({ taken }: Carried) => this.options.outageOf([taken.entry])
    if (waiting[0] === undefined || nodeOf(waiting[0]) === outage) return false
    this.waiting.delete(outage)
    const moved = new Map<Outage, Carried[]>()
    for (const each of waiting) {
      const node = nodeOf(each)
      moved.set(node, moved.get(node) ?? [])
      moved.get(node)?.push(each)
    }
    for (const [node, those] of moved) this.wait(node, those)
    return true
  }

  private drop(carried: readonly Carried[], why: string): void {
    const { length } = carried.filter(({ over }) => !over)
    if (length > 0) this.options.onUncounted(new Error(why), length)
  }

  private async carry(outage: Outage, waiting: Carried[]): Promise<void> {
    const asked = performance.now()
    try {
      await this.ask(waiting[0], outage)
      const answers = performance.now()
      while (waiting.length > 0) outage.answered(await this.tell(waiting, outage, answers), asked)
      this.waiting.delete(outage)
    } catch (error) {
      const onlyReads = this.options.isOfWrites(error)
      // Who asks a store that may be read is told its refusals meanwhile.
      if (outage.silent || (outage.lost && !onlyReads)) outage.failed(error, onlyReads)
    }
    if (this.waiting.size > 0) return
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
