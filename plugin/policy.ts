/** One limit, as headers and refusals name it (draft-ietf-httpapi-ratelimit-headers). */
export class Policy {
  private max = -1
  private text = ''
  /** The beginning of the policy's item in `RateLimit`. */
  private readonly left: string

  constructor(
    readonly name: string,
    private readonly windowMs: number
  ) {
    this.left = `"${name}";r=`
  }

  /** The policy's item in `RateLimit-Policy`. @param max that of this request, which may bring its own */
  withMax(max: number): string {
    if (max !== this.max) {
      this.max = max
      this.text = `"${this.name}";q=${max};w=${seconds(this.windowMs)}`
    }
    return this.text
  }

  /**
   * The policy's item in `RateLimit`. Its `t` is the effective window (version 11 of the draft, section 4.1.2): within
   * that time no more than `r` are admitted.
   * @param max that of this request; if it is 0, no slot returns, and `t` is left out
   */
  withState(max: number, remaining: number, resetMs: number): string {
    if (max === 0) return `${this.left}0`
    // Where none is used, no slot returns, and the effective window is the whole window.
    const effectiveMs = resetMs === 0 && remaining === max ? this.windowMs : resetMs
    return `${this.left}${remaining};t=${seconds(effectiveMs)}`
  }
}

/** Whole seconds, rounded up, so that nobody is told to come too soon. */
export function seconds(ms: number): number {
  return Math.ceil(ms / 1_000)
}
