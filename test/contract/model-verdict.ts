import { isHeld } from '../../plugin/limits/index.js'
import { BLOCKED, PASSES } from '../../plugin/store/facts.js'
import { type Entry, type Limit, TICKS_PER_MS } from '../../plugin/store/store.js'
import type { Verdict, Violation } from '../../plugin/verdict.js'
import type { Model, ModelEntry, ModelFacts, Slot } from './model.js'

/** A rule as the model sees it, with the entries of one request. */
export interface ModelRule {
  name: string
  observed: boolean
  entries: readonly Entry[]
}

/** The right verdict on a decision of the model. It finds the waiting time by trying each instant to come. */
export function verdictOf(model: Model, rules: readonly ModelRule[], decided: ModelFacts): Verdict {
  const all = rules.flatMap(({ entries }) => entries)
  const before = (entry: Entry) => decided.entries[all.indexOf(entry)]
  const violations = (observed: boolean): Violation[] =>
    rules
      .filter(rule => rule.observed === observed)
      .flatMap(({ name, entries }) => {
        const blocked = entries.filter(entry => before(entry)?.state === BLOCKED)
        const blockedFor = Math.max(...blocked.map(entry => before(entry)?.blockedFor ?? 0))
        const blockedMs = Number.isFinite(blockedFor) ? toMs(blockedFor) : null
        return entries.flatMap(entry => {
          const found = before(entry)
          const full = limitsOf(entry).filter(
            ({ max }, i) => (found?.limits[i]?.used ?? 0) + costOf(entry) > max
          )
          const reached = full.map(({ windowMs }): Violation => ({ rule: name, windowMs }))
          if (entry !== blocked[0]) return reached
          return [{ rule: name, windowMs: 0, blockedMs }, ...reached]
        })
      })
  const enforced = rules.filter(({ observed }) => !observed).flatMap(({ entries }) => entries)
  const blocked = enforced.some(entry => before(entry)?.state === BLOCKED)
  const never = blocked || enforced.some(entry => limitsOf(entry).some(({ max }) => max < costOf(entry)))
  const others = enforced.filter(entry => before(entry)?.state !== PASSES && !isHeld(entry.spec))
  // A lock that this decision has taken is free when its request is done.
  const waitedFor = enforced.filter(entry => !(before(entry)?.slot && isHeld(entry.spec)))
  return {
    allowed: decided.admitted,
    retryAfterMs: never ? null : toMs(earliest(model, waitedFor) - model.now),
    violated: violations(false),
    observed: violations(true),
    rules: rules.map(({ name, entries }) => ({
      name,
      limits: entries.flatMap(entry => left(model, entry, before(entry)?.slot))
    })),
    refusal: blocked ? 'blocked' : decided.admitted ? null : others.length > 0 ? 'exceeded' : 'in-flight'
  }
}

function left(model: Model, entry: Entry, slot?: Slot): Verdict['rules'][number]['limits'] {
  const now = model.peek([entry]).entries[0]
  if (slot && entry.spec.kind === 'distinct') return leftBeside(entry, now)
  return limitsOf(entry).map(({ max, windowMs }, i) => {
    const { used, reset } = now?.limits[i] ?? { used: 0, reset: 0 }
    // A period ends whether anything is used in it or not.
    const resetMs = used === 0 && entry.spec.kind !== 'count' ? 0 : toMs(reset)
    const cost = entry.cost === undefined ? {} : { cost: entry.cost }
    return { max, remaining: Math.max(max - used, 0), resetMs, windowMs, ...cost }
  })
}

/** Of different values, the one just counted is used as well; the model counts only the others. */
function leftBeside(entry: Entry, now: ModelEntry | undefined): Verdict['rules'][number]['limits'] {
  return limitsOf(entry).map(({ max, windowMs }, i) => {
    const { used, reset } = now?.limits[i] ?? { used: 0, reset: 0 }
    return { max, remaining: max - used - 1, resetMs: used === 0 ? windowMs : toMs(reset), windowMs }
  })
}

function earliest(model: Model, entries: readonly Entry[]): number {
  const { now } = model
  const instants = [now, ...model.edges(entries)]
  const found = instants.find(instant => {
    model.now = instant
    return model.peek(entries).admitted
  })
  model.now = now
  return found ?? Number.POSITIVE_INFINITY
}

function limitsOf({ spec, max }: Pick<Entry, 'spec' | 'max'>): Limit[] {
  return spec.limits.map((limit, i) => ({ ...limit, max: max?.[i] ?? limit.max }))
}

function costOf({ cost = 1 }: Entry): number {
  return cost
}

function toMs(ticks: number): number {
  return Math.ceil(ticks / TICKS_PER_MS)
}
