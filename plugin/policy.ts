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
   * The policy's item in `RateLimit`.
   * @param max that of this request; if it is 0, no slot returns, and `t` is left out
   */
  withState(max: number, remaining: number, resetMs: number): string {
    return `${this.left}${remaining}${max === 0 ? '' : `;t=${seconds(resetMs)}`}`
  }
}

/** Whole seconds, rounded up, so that nobody is told to come too soon. */
export function seconds(ms: number): number {
  return Math.ceil(ms / 1_000)
}
