export interface OutageEvents {
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

  /** @param timeout in milliseconds */
  constructor(
    private readonly timeout: number,
    private readonly events: OutageEvents = {}
  ) {}

  /** Whether to ask now. */
  mayAsk(): boolean {
    if (this.until === 0) return true
    const now = performance.now()
    if (now < this.until) return false
    this.until = now + this.timeout
    return true
  }

  /** @param wrote whether it has written what it was asked to */
  answered(wrote: boolean): void {
    if (this.until === 0) return
    // That it reads was known: who comes next finds out at once whether it writes.
    this.until = this.onlyReads && !wrote ? performance.now() : 0
    if (this.until === 0) this.events.onBack?.()
  }

  /** @param onlyReads whether it answers, and takes no writes */
  failed(error: unknown, onlyReads = false): void {
    const lost = this.until === 0
    this.until = performance.now() + this.timeout
    this.onlyReads = onlyReads
    if (lost) this.events.onLost?.(error)
    this.events.onFailure?.()
  }
}
