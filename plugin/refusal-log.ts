import type { FastifyRequest } from 'fastify'
import type { Decision } from './decision.js'
import type { DecisionEvent } from './options.js'
import type { Verdict } from './verdict.js'

const SECOND_MS = 1_000
/** How many logged refusals are remembered. When there are more, all are forgotten, and logged anew. */
const MAX_KNOWN = 10_000
/** Small enough for a sum times 31 to be exact. */
const SUMS = 2 ** 48

/** What pino has and another logger may lack. */
interface Leveled {
  isLevelEnabled(level: string): boolean
}

/**
 * Logs refusals, at `info`. So that a flood does not fill the log, two kinds are logged at `debug`: further refusals by
 * the same limits to the same keys within a second, and those that the cache of refusals repeats.
 */
export class RefusalLog {
  // Refusals logged since `since`: each is a sum of 48 bits over the limits that refuse and the identities.
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
    // A refusal that a route with a quieter logger does not log must not make that of another route a repetition.
    if (!tells('info')) return
    const level = cached || this.repeats(decision, violated) ? 'debug' : 'info'
    if (!tells(level)) return
    const rules = violated.map(({ rule, windowMs }) => ({ rule, windowMs, key: decision.keyOf(rule) }))
    log[level]({ limit: { stage, rules, retryAfterMs } }, 'refused by limit')
  }

  /** Logs a failure that the client is told of, each message at most once a second. */
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
      // A filter does not tell whom it refuses, so nothing is known to be a repetition.
      if (number === undefined) return false
      refusal = (refusal * 31 + number + windowMs) % SUMS
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
