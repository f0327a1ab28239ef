interface OutageEvents {
  /** Hears when it is lost, with the first error. */
  onLost?: (error: unknown) => void
  /** Hears when it is back. */
  onBack?: () => void
  /** Hears of each failure. */
  onFailure?: () => void
}

/** Whether something answers. While it does not, it is asked again after each `timeout`, by one who needs it. */
export class Outage {
  private until = 0
  private onlyReads = false
  /** By the monotonic clock: when the latest question was asked that it has answered, and when it was lost. */
  private lastAnswered = 0
  private lostAt = 0

  /**
   * @param timeout in milliseconds
   * @param node of a cluster, that answers or does not; '' where it is not known, or there is none
   */
  constructor(
    private readonly timeout: number,
    private readonly events: OutageEvents = {},
    readonly node = ''
  ) {}

  get lost(): boolean {
    return this.until !== 0
  }

  /** Whether it is lost, and may not be read either. */
  get silent(): boolean {
    return this.lost && !this.onlyReads
  }

  /** Whether to ask now. */
  mayAsk(): boolean {
    if (!this.lost) return true
    const now = performance.now()
    if (now < this.until) return false
    this.until = now + this.timeout
    return true
  }

  /**
   * Whether to read it now. Where only reads are answered this takes nobody's turn: of a decision several identities may be
   * on one node, and each has to be looked at before any is counted.
   */
  mayRead(): boolean {
    return this.silent ? this.mayAsk() : performance.now() >= this.until
  }

  /** Whether it has answered what was asked of it later than that. */
  hasAnsweredSince(asked: number): boolean {
    return this.lastAnswered > asked
  }

  /** Whether it is lost, and was not yet then. */
  isLostSince(asked: number): boolean {
    return this.lost && this.lostAt > asked
  }

  /**
   * @param wrote whether it has written what it was asked to; null: it was only read
   * @param asked when it was asked
   */
  answered(wrote: boolean | null, asked = 0): void {
    this.lastAnswered = Math.max(this.lastAnswered, asked)
    // That it can be read was known.
    if (!this.lost || (this.onlyReads && wrote === null)) return
    // The next one may ask at once, and finds out whether it takes writes.
    this.until = this.onlyReads && !wrote ? performance.now() : 0
    if (!this.lost) this.events.onBack?.()
  }

  /** @param onlyReads whether it answers, and takes no writes */
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
