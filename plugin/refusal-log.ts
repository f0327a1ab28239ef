import type { FastifyRequest } from 'fastify'
import type { Verdict } from './decision.js'
import type { DecisionEvent } from './options.js'
import type { Decision } from './reservation.js'

const SECOND_MS = 1_000
/** Of so many refusals it is known that they are in the log; more begin anew. */
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
  private readonly known = new Set<string>()
  private since = Number.NEGATIVE_INFINITY

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
    const rules = violated.map(({ rule, windowMs }) => ({ rule, windowMs, key: decision.keyOf(rule) }))
    const level = cached || this.repeats(decision.at, rules) ? 'debug' : 'info'
    if (tells(level)) log[level]({ limit: { stage, rules, retryAfterMs } }, 'refused by limit')
  }

  private repeats(
    at: number,
    rules: readonly { rule: string; windowMs: number; key?: string | undefined }[]
  ) {
    let refusal = ''
    for (const { rule, windowMs, key } of rules) {
      // A filter does not tell whom it refuses.
      if (key === undefined) return false
      refusal += `${rule} ${windowMs} ${key},`
    }
    if (at - this.since >= SECOND_MS || this.known.size >= MAX_KNOWN) {
      this.known.clear()
      this.since = at
    }
    if (this.known.has(refusal)) return true
    this.known.add(refusal)
    return false
  }
}
