import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { Counter, Registry } from 'prom-client'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import type { Failing } from '../senders/sender.js'

export interface Metrics {
  registry: Registry
  decided(event: DecisionEvent): void
  sent(labels: { channel: string; sender: string; outcome: 'sent' | Failing }): void
  passedOn(labels: { channel: string; sender: string; outcome: Failing }): void
}

declare module 'fastify' {
  interface FastifyInstance {
    metrics: Metrics
  }
}

/** A registry of this app's own. No label names a person. */
const metrics: FastifyPluginAsync = async fastify => {
  const registry = new Registry()
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers: [registry] })
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
  const duplicates = counter('limit_duplicates_total', 'Messages held back as duplicates.', ['route'])
  const byOutcome = ['channel', 'sender', 'outcome']
  const sends = counter('sends_total', 'Messages, by the sender that ended their sending.', byOutcome)
  const passes = counter(
    'sends_passed_on_total',
    'Messages that a sender did not take, so that the next was asked.',
    byOutcome
  )

  fastify.decorate('metrics', {
    registry,
    decided({ allowed, violated, stage, store, route: named }) {
      const route = named ?? 'none'
      decisions.inc({ route, stage, store, decision: allowed ? 'allowed' : 'refused' })
      if (allowed) return
      const names = new Set(violated.map(each => each.rule))
      for (const rule of names) refusals.inc({ route, rule })
      const rules = fastify.policy.rules.filter(rule => names.has(rule.name))
      if (rules.some(isAgainstDuplicates)) duplicates.inc({ route })
    },
    sent: labels => sends.inc(labels),
    passedOn: labels => passes.inc(labels)
  })
}

/** The same content again, or the same send while it is under way. */
function isAgainstDuplicates({ key, lock }: Rule): boolean {
  return lock !== undefined || [key].flat().some(part => typeof part === 'object' && 'digest' in part)
}

export default fp(metrics, { name: 'metrics' })
