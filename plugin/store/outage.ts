interface OutageEvents {
  /** Called when the store is lost, with the first error. */
  onLost?: (error: unknown) => void
  /** Called when the store is back. */
  onBack?: () => void
  /** Called after each failure. */
  onFailure?: () => void
}

/**
 * A circuit breaker: whether a store, or one node of a cluster, answers. While it is lost, one caller per `timeout` asks
 * it again. Times are milliseconds by the monotonic clock.
 */
export class Outage {
  /** When a lost store may be asked again; 0 while the store is not lost. */
  private until = 0
  private onlyReads = false
  /** When the latest call was made that the store has answered, and when the store was lost. */
  private lastAnswered = 0
  private lostAt = 0

  /**
   * @param timeout how long a lost store is not asked after a failure
   * @param node the cluster node that this is about; '' where the node is not known, or there is no cluster
   */
  constructor(
    private readonly timeout: number,
    private readonly events: OutageEvents = {},
    readonly node = ''
  ) {}

  get lost(): boolean {
    return this.until !== 0
  }

  /** Whether the store is lost, and cannot be read either. */
  get silent(): boolean {
    return this.lost && !this.onlyReads
  }

  /** Whether the caller may ask the store now. While the store is lost, one caller per `timeout` may. */
  takeTurn(): boolean {
    if (!this.lost) return true
    const now = performance.now()
    if (now < this.until) return false
    this.until = now + this.timeout
    return true
  }

  /**
   * Whether the caller may read the store now. While the store takes no writes, a read uses up no turn: a decision on
   * several identities, which may be on one node, peeks at each of them before it counts any.
   */
  mayRead(): boolean {
    return this.silent ? this.takeTurn() : performance.now() >= this.until
  }

  /** Whether the store has answered a call that was made later than `asked`. */
  hasAnsweredSince(asked: number): boolean {
    return this.lastAnswered > asked
  }

  /** Whether the store is lost, and was not lost yet at `asked`. */
  isLostSince(asked: number): boolean {
    return this.lost && this.lostAt > asked
  }

  /**
   * Notes that the store has answered a call.
   * @param wrote whether the call has written; null for a call that only reads
   * @param asked when the call was made
   */
  answered(wrote: boolean | null, asked = 0): void {
    this.lastAnswered = Math.max(this.lastAnswered, asked)
    // It was known before that the store can be read.
    if (!this.lost || (this.onlyReads && wrote === null)) return
    // A refusal writes nothing, so it does not tell whether the store takes writes again. The next caller may ask at
    // once, and finds out.
    this.until = this.onlyReads && !wrote ? performance.now() : 0
    if (!this.lost) this.events.onBack?.()
  }

  /** Notes that a call failed. @param onlyReads whether the store answers, but takes no writes */
  failed(error: unknown, onlyReads = false): void {
    const { lost } = this
    const now = performance.now()
    this.until = now + this.timeout
    this.onlyReads = onlyReads
    if (!lost) {
      this.lostAt = now
      this.events.onLost?.(error)
    }
    this.events.onFailure?.()
  }
}
