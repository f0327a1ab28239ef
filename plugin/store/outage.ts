/** Whether something answers. While it does not, it is asked again after each `timeout`, by one who needs it. */
export class Outage {
  private until = 0

  /**
   * @param timeout in milliseconds
   * @param onChange hears when it is lost, with the error, and when it is back, without
   * @param onFailure hears of each failure
   */
  constructor(
    private readonly timeout: number,
    private readonly onChange: (error?: unknown) => void,
    private readonly onFailure: () => void = () => {}
  ) {}

  /** Whether to ask now. */
  mayAsk(): boolean {
    if (this.until === 0) return true
    const now = performance.now()
    if (now < this.until) return false
    this.until = now + this.timeout
    return true
  }

  answered(): void {
    if (this.until === 0) return
    this.until = 0
    this.onChange()
  }

  failed(error: unknown): void {
    const lost = this.until === 0
    this.until = performance.now() + this.timeout
    if (lost) this.onChange(error)
    this.onFailure()
  }
}
