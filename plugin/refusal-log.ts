import type { FastifyRequest } from 'fastify'
import type { Decision } from './decision.js'
import type { DecisionEvent } from './options.js'
import type { Verdict } from './verdict.js'

const SECOND_MS = 1_000
/** So many refusals are known to be in the log; beyond it all are forgotten, and logged anew. */
const MAX_KNOWN = 10_000

/** What pino has, and another logger need not. */
interface Leveled {
  isLevelEnabled(level: string): boolean
}

/**
 * The log of refusals. What the same limits refuse to the same keys once more within a second, and what the cache of
 * refusals repeats, is told at `debug`: a flood must not fill the log.
 */
export class RefusalLog {
  // By whom and what: sums of 53 bits.
  private readonly known = new Set<number>()
  private since = Number.NEGATIVE_INFINITY
  private readonly failures = new Map<string, number>()

  write(
    decision: Decision,
    { violated, retryAfterMs }: Verdict,
    stage: DecisionEvent['stage'],
    { log }: FastifyRequest
  ): void {
    const tells = (level: string) => (log as Partial<Leveled>).isLevelEnabled?.(level) !== false
    const cached = decision.store === 'cache'
    // What a quieter route keeps to itself is no repetition where another one tells it.
    if (!tells(cached ? 'debug' : 'info')) return
    const level = cached || this.repeats(decision, violated) ? 'debug' : 'info'
    if (!tells(level)) return
    const rules = violated.map(({ rule, windowMs }) => ({ rule, windowMs, key: decision.keyOf(rule) }))
    log[level]({ limit: { stage, rules, retryAfterMs } }, 'refused by limit')
  }

  /** A failure of which the client is told, once a second by its message. */
  fail(error: Error, { log }: FastifyRequest): void {
    const { message } = error
    const now = performance.now()
    if (now - (this.failures.get(message) ?? Number.NEGATIVE_INFINITY) < SECOND_MS) return
    this.failures.set(message, now)
    log.error({ err: error }, message)
  }

  private repeats(decision: Decision, violated: Verdict['violated']): boolean {
    let refusal = 0
    for (const { rule, windowMs } of violated) {
      const number = decision.numberOf(rule)
      // A filter does not tell whom it refuses.
      if (number === undefined) return false
      refusal = (refusal * 31 + number + windowMs) % Number.MAX_SAFE_INTEGER
    }
    if (decision.at - this.since >= SECOND_MS || this.known.size >= MAX_KNOWN) {
      this.known.clear()
      this.since = decision.at
    }
    if (this.known.has(refusal)) return true
    this.known.add(refusal)
    return false
  }
}
