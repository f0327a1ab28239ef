import { boundaries } from '../calendar.js'
import { BLOCKED, type CountSpec, type Entry, EPOCH_MS, type LogSpec, PASSES, REFUSES, TICKS_PER_MS } from './store.js'

/** A log or a count as it is kept: a run of numbers below 2^48. */
export interface Fields {
  readonly length: number
  at(index: number): number
}

/** The end of the calendar period that holds `wall`; both in ticks. */
export function periodEnd(spec: CountSpec, wall: number): number {
  return toTicks(boundaries(spec.per, spec.timeZone, wall / TICKS_PER_MS + EPOCH_MS)[2])
}

/** Milliseconds since the epoch, as ticks. */
export function toTicks(ms: number): number {
  return Math.floor((ms - EPOCH_MS) * TICKS_PER_MS)
}

/** Opens the facts of one entry; what refuses is marked by `refuse`. @returns where they begin */
export function open(facts: number[], blocked: boolean): number {
  return facts.push(blocked ? BLOCKED : PASSES, 0) - 2
}

export function readLog(facts: number[], entry: Entry, log: Fields, now: number, blocked: boolean): void {
  const head = open(facts, blocked)
  const { limits } = entry.spec as LogSpec
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i] as LogSpec['limits'][number]
    const max = entry.max?.[i] ?? limit.max
    const used = newer(log, now - limit.window)
    if (used >= max && !blocked) facts[head] = REFUSES
    const oldest = Math.min(used, max)
    facts.push(used, oldest > 0 ? log.at(oldest - 1) + limit.window - now : 0)
  }
}

export function readCount(facts: number[], entry: Entry, count: Fields, wall: number, blocked: boolean): void {
  const head = open(facts, blocked)
  const spec = entry.spec as CountSpec
  const used = count.length > 0 && count.at(0) > wall ? count.at(1) : 0
  if (used >= (entry.max?.[0] ?? spec.max) && !blocked) facts[head] = REFUSES
  facts.push(used, periodEnd(spec, wall) - wall)
}

export function readLock(facts: number[], ends: number, now: number): void {
  const head = open(facts, false)
  const held = Math.max(ends - now, 0)
  if (held > 0) facts[head] = REFUSES
  facts.push(held > 0 ? 1 : 0, held)
}

/** Whether every entry in force passes, as the second number of the facts. */
export function conclude(facts: number[], entries: readonly Entry[]): void {
  let head = 2
  for (const { spec } of entries) {
    if (facts[head] !== PASSES && !spec.observed) facts[1] = 0
    head += 2 + 2 * limitsOf(spec)
  }
}

/** How many limits an entry's facts tell of. */
export function limitsOf(spec: Entry['spec']): number {
  return spec.kind === 'log' ? spec.limits.length : 1
}

/** How many stamps of the log, newest first, are later than `since`. */
function newer(log: Fields, since: number): number {
  let low = 0
  let high = log.length
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (log.at(middle - 1) > since) low = middle
    else high = middle - 1
  }
  return low
}
