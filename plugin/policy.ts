/** One limit, as headers and refusals name it (draft-ietf-httpapi-ratelimit-headers). */
export class Policy {
  private max = -1
  private text = ''
  /** How `RateLimit` begins to tell of it. */
  private readonly left: string

  constructor(
    readonly name: string,
    private readonly windowMs: number
  ) {
    this.left = `"${name}";r=`
  }

  /** For `RateLimit-Policy`. @param max of this request: it may bring its own */
  withMax(max: number): string {
    if (max !== this.max) {
      this.max = max
      this.text = `"${this.name}";q=${max};w=${seconds(this.windowMs)}`
    }
    return this.text
  }

  /** For `RateLimit`. @param max of this request: of none at all no slot returns */
  withState(max: number, remaining: number, resetMs: number): string {
    return `${this.left}${remaining}${max === 0 ? '' : `;t=${seconds(resetMs)}`}`
  }
}

/** Whole, rounded up: nobody is told to come too soon. */
export function seconds(ms: number): number {
  return Math.ceil(ms / 1_000)
}
