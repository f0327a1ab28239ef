import { type Awaitable, isPromise } from './awaitable.js'
import { type Instant, instantNow } from './clock.js'
import type { Entry, Settling, Taken } from './store/store.js'

/** The calls that may fail after a decision was made. */
export type Afterwards = 'refund' | 'release' | 'renewal'

/** Runs a settlement. If it fails, `report` gets the error, not the caller, and what was counted stays counted. */
export function reporting(report: (error: unknown) => void, what: () => Awaitable<void>): Awaitable<void> {
  try {
    const done = what()
    return isPromise(done) ? done.catch(report) : undefined
  } catch (error) {
    report(error)
  }
}

/** The holder of a request's locks, and the store that keeps them. */
interface Holder {
  store: Settling
  /** The holder's name on each lock. */
  token: string
  /** When the locks were asked for. */
  since: Instant
  /** Gets the errors of calls that failed. */
  report(error: unknown, what: Afterwards): void
}

/** A lock that was taken; its rule says how long it may be renewed, in milliseconds. */
type Lock = Taken<Entry & { rule: { maxHold: number } }>

/** The locks of one request, each renewed until released, lost or held for its `maxHold`. */
export class Hold {
  private readonly renewals: readonly Renewal[]
  private readonly controller = new AbortController()
  private releasing: Awaitable<void> = undefined

  constructor(
    private locks: readonly Lock[],
    private readonly holder: Holder
  ) {
    this.renewals = locks.map(lock => new Renewal(lock, holder, () => this.lose(lock)))
  }

  get locked(): boolean {
    return this.locks.length > 0
  }

  /** Aborts, with an `AbortError`, when a lock in force is lost before it was released. */
  get signal(): AbortSignal {
    // After the process has stood still, its timers fire late, behind whatever came meanwhile.
    for (const renewal of this.renewals) renewal.look()
    return this.controller.signal
  }

  /** Never rejects. */
  async release(): Promise<void> {
    for (const renewal of this.renewals) renewal.end()
    const { locks } = this
    const { store, token, report } = this.holder
    if (locks.length > 0) {
      this.locks = []
      const failed = (error: unknown) => report(error, 'release')
      this.releasing = reporting(failed, () => store.refund(locks, token))
    }
    await this.releasing
  }

  // The other locks stay held: nobody else may send under those at the same time. Losing a lock of an observed rule
  // aborts nothing.
  private lose({ entry }: Lock): void {
    if (!entry.spec.observed)
      this.controller.abort(new DOMException('the lock of this send is lost', 'AbortError'))
  }
}

/**
 * Renews a lock every third of its time to live. Calls `lost` when the store has lost the lock, or when its time is
 * over, even while the answer to a renewal is under way.
 */
class Renewal {
  private readonly renewing: NodeJS.Timeout
  private ending: NodeJS.Timeout | undefined
  private ends = { monotonic: 0, wall: 0 }
  private ended = false

  constructor(
    private readonly lock: Lock,
    private readonly holder: Holder,
    private readonly lost: () => void
  ) {
    this.holdFrom(holder.since, this.ttl)
    this.renewing = setInterval(() => void this.renew(), this.ttl / 3).unref()
  }

  end(): void {
    this.ended = true
    clearInterval(this.renewing)
    clearTimeout(this.ending)
  }

  /** Gives the lock up as lost if its time is over by either clock. */
  look(): void {
    if (this.ended) return
    const { monotonic, wall } = instantNow()
    if (monotonic >= this.ends.monotonic || wall >= this.ends.wall) this.lose()
  }

  private get ttl(): number {
    return this.lock.entry.spec.ttl
  }

  private async renew(): Promise<void> {
    const { holder } = this
    const { entry } = this.lock
    const asked = instantNow()
    if (asked.monotonic >= holder.since.monotonic + entry.rule.maxHold) return
    try {
      const held = await holder.store.renew(entry, holder.token)
      if (!this.ended) this.holdFrom(asked, held ? this.ttl : 0)
    } catch (error) {
      holder.report(error, 'renewal')
    }
  }

  private holdFrom({ monotonic, wall }: Instant, ms: number): void {
    clearTimeout(this.ending)
    this.ends = { monotonic: monotonic + ms, wall: wall + ms }
    const left = Math.max(this.ends.monotonic - performance.now(), 0)
    this.ending = setTimeout(() => this.lose(), left).unref()
  }

  private lose(): void {
    this.end()
    this.lost()
  }
}
