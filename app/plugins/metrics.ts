import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Counter, Histogram, Registry } from 'prom-client'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { countryOf, type Recipient } from '../recipient.js'
import type { Failing } from '../senders/sender.js'

export interface Metrics {
  registry: Registry
  decided(event: DecisionEvent, request: FastifyRequest | null): void
  /** @param tookMs how long the sender took, together with the senders asked before it */
  sent(labels: Sent, tookMs: number): void
  passedOn(labels: Sent): void
  /** Counts a code whose message a sender has taken. */
  codeSent(code: Code): void
  /** Counts a try of a code; null when the code is not known. */
  verified(code: Code | null, outcome: string): void
  /** @param outcome unknown: it could not be found out */
  challenged(outcome: 'solved' | 'failed' | 'missing' | 'unknown'): void
}

interface Code extends Pick<Recipient, 'channel' | 'to'> {
  purpose: string
  /** The sender that took the code's message; `''` if none is known. */
  sender: string
}

interface Sent {
  channel: string
  sender: string
  /** skipped: the breaker is open, and the provider was not asked. */
  outcome: 'sent' | 'skipped' | Failing
}

declare module 'fastify' {
  interface FastifyInstance {
    metrics: Metrics
  }
}

/** In seconds; SEND_TIMEOUT is 25 at most. */
const SEND_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/** In seconds: those of sends, since a request may have to wait for one, and shorter ones for the others. */
const REQUEST_BUCKETS = [0.005, 0.01, 0.025, ...SEND_BUCKETS]

/** The metrics, in a registry of this app's own. No label names a person. */
const metrics: FastifyPluginAsync = async fastify => {
  const registry = new Registry()
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers: [registry] })
  const histogram = (name: string, help: string, labelNames: string[], buckets: number[]) =>
    new Histogram({ name, help, labelNames, buckets, registers: [registry] })
  const requests = histogram(
    'http_request_duration_seconds',
    'How long requests took to answer.',
    ['route', 'status'],
    REQUEST_BUCKETS
  )
  fastify.addHook('onResponse', ({ method, routeOptions: { url } }, { statusCode, elapsedTime }, done) => {
    const route = url === undefined ? 'none' : `${method} ${url}`
    requests.observe({ route, status: statusCode }, elapsedTime / 1_000)
    done()
  })
  const decisions = counter('limit_decisions_total', 'Decisions on requests.', [
    'route',
    'stage',
    'store',
    'decision'
  ])
  const refusals = counter('limit_refusals_total', 'Refusals, one for each rule that refused.', [
    'route',
    'rule'
  ])
  const observations = counter(
    'limit_observed_refusals_total',
    'What rules that only observe would have refused, one for each rule.',
    ['route', 'rule']
  )
  const duplicates = counter('limit_duplicates_total', 'Messages held back as duplicates.', ['route'])
  const byOutcome = ['channel', 'sender', 'outcome']
  const sends = counter('sends_total', 'Messages, by the sender that ended their sending.', byOutcome)
  const passes = counter(
    'sends_passed_on_total',
    'Messages that a sender did not take, so that the next was asked.',
    byOutcome
  )
  const durations = histogram(
    'send_duration_seconds',
    'How long the sender took that ended the sending, with those before it.',
    ['channel', 'sender'],
    SEND_BUCKETS
  )
  const ofCode = ['channel', 'purpose', 'sender', 'country']
  const codes = counter('codes_sent_total', 'Codes whose message a sender has taken.', ofCode)
  const verifications = counter('verifications_total', 'Tries of codes.', [...ofCode, 'outcome'])
  const challenges = counter('challenges_total', 'Challenges of requests for a code.', ['outcome'])

  fastify.decorate('metrics', {
    registry,
    decided({ allowed, violated, observed, stage, store, route: named }, request) {
      const route = named ?? 'none'
      decisions.inc({ route, stage, store, decision: allowed ? 'allowed' : 'refused' })
      for (const rule of namesIn(observed)) observations.inc({ route, rule })
      if (allowed) return
      const names = namesIn(violated)
      for (const rule of names) refusals.inc({ route, rule })
      const rules = request?.limitRules ?? fastify.limit.rules
      if ([...names].some(name => isAgainstDuplicates(rules[name]))) duplicates.inc({ route })
    },
    sent({ channel, sender, outcome }, tookMs) {
      sends.inc({ channel, sender, outcome })
      if (outcome !== 'skipped') durations.observe({ channel, sender }, tookMs / 1_000)
    },
    passedOn: labels => passes.inc({ ...labels }),
    codeSent: code => codes.inc(labelsOf(code)),
    verified: (code, outcome) => verifications.inc({ ...labelsOf(code), outcome }),
    challenged: outcome => challenges.inc({ outcome })
  })
}

const namesIn = (violations: DecisionEvent['violated']) => new Set(violations.map(({ rule }) => rule))

/** The labels of a code. What is not known is `none`, as is the country of a mail. */
function labelsOf(code: Code | null) {
  return {
    channel: code?.channel ?? 'none',
    purpose: code?.purpose ?? 'none',
    sender: code?.sender || 'none',
    country: (code && countryOf(code)) ?? 'none'
  }
}

/** Whether a rule refuses duplicates: the same content again, or the same send while it is under way. */
function isAgainstDuplicates({ key, lock }: Partial<Rule> = {}): boolean {
  return lock !== undefined || [key].flat().some(part => typeof part === 'object' && 'digest' in part)
}

export default fp(metrics, { name: 'metrics' })
