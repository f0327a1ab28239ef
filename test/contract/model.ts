import { Temporal } from 'temporal-polyfill'
import { isHeld } from '../../plugin/limits/index.js'
import { BLOCKED, PASSES, REFUSES } from '../../plugin/store/facts.js'
import { type CountSpec, type Entry, EPOCH_MS, TICKS_PER_MS } from '../../plugin/store/store.js'

/** One send that was counted, from this instant on. */
export interface Slot {
  at: number
  /** The number of the value it was sent to, where different values are counted. */
  value: number | undefined
  /** How much it takes. */
  cost: number
}

/** What is kept of one entry. */
interface Kept {
  slots: Slot[]
  blockedUntil: number
  lockedUntil: number
  holder: string
}

export interface ModelEntry {
  state: number
  /** What was counted, if anything was. A lock that was taken has one as well. */
  slot: Slot | undefined
  /** Ticks until its block ends; 0 when it has none. */
  blockedFor: number
  limits: { used: number; reset: number }[]
}

export interface ModelFacts {
  now: number
  admitted: boolean
  entries: ModelEntry[]
}

/**
 * A limiter written to be read: it keeps the instant of every send that was ever counted, and counts anew each time
 * it is asked. Times are ticks; nothing expires.
 */
export class Model {
  now = 0
  private readonly all = new Map<string, Kept>()

  peek(entries: readonly Entry[]): ModelFacts {
    const found = entries.map(entry => this.look(entry))
    const admitted = entries.every((entry, i) => entry.spec.observed || found[i]?.state === PASSES)
    return { now: this.now, admitted, entries: found }
  }

  reserve(entries: readonly Entry[], token: string): ModelFacts {
    const facts = this.peek(entries)
    if (!facts.admitted) return facts
    // Here all entries that do not pass are observed.
    const out = entries.filter((_, i) => facts.entries[i]?.state !== PASSES).map(entry => entry.spec.rule)
    for (const [i, entry] of entries.entries()) {
      const found = facts.entries[i]
      if (found && !out.includes(entry.spec.rule)) found.slot = this.take(entry, token)
    }
    return facts
  }

  /** Counts what was admitted elsewhere, `ago` ticks ago. @returns its slot; undefined when its time is over */
  count(entry: Entry, ago: number): Slot | undefined {
    const { spec } = entry
    const then = this.now - ago
    const over = spec.kind === 'count' ? this.endOf(spec, ago) <= this.now : ago >= spec.ttl * TICKS_PER_MS
    return over ? undefined : this.take(entry, '', then)
  }

  /** The end of the calendar period of `ago` ticks ago. */
  endOf(spec: CountSpec, ago: number): number {
    return period(spec, this.now - ago)[1]
  }

  refund(entry: Entry, slot: Slot, token: string): void {
    if (isHeld(entry.spec)) return this.release(entry, token)
    const kept = this.kept(entry)
    kept.slots = kept.slots.filter(other => other !== slot)
  }

  release(entry: Entry, token: string): void {
    const kept = this.kept(entry)
    if (kept.holder === token) kept.lockedUntil = 0
  }

  renew(entry: Entry, token: string): boolean {
    const kept = this.kept(entry)
    const held = kept.lockedUntil > this.now && kept.holder === token
    if (held) kept.lockedUntil = this.now + entry.spec.ttl * TICKS_PER_MS
    return held
  }

  clear(entries: readonly Entry[]): void {
    for (const entry of entries) Object.assign(this.kept(entry), { slots: [], lockedUntil: 0 })
  }

  block(entries: readonly Entry[], ms: number): void {
    const until = ms === 0 ? Number.POSITIVE_INFINITY : this.now + ms * TICKS_PER_MS
    for (const entry of entries) this.kept(entry).blockedUntil = until
  }

  unblock(entries: readonly Entry[]): void {
    for (const entry of entries) this.kept(entry).blockedUntil = 0
  }

  /** The instants, still to come, at which an answer changes. */
  edges(entries: readonly Entry[]): number[] {
    const edges = entries.flatMap(entry => {
      const { slots, blockedUntil, lockedUntil } = this.kept(entry)
      const { spec } = entry
      if (spec.kind === 'count') return [blockedUntil, period(spec, this.now)[1]]
      if (spec.kind === 'lock') return [lockedUntil]
      const ends = spec.limits.flatMap(({ windowMs }) => slots.map(({ at }) => at + windowMs * TICKS_PER_MS))
      return [blockedUntil, ...ends]
    })
    return [...new Set(edges)]
      .filter(edge => edge > this.now && edge < Number.POSITIVE_INFINITY)
      .sort((a, b) => a - b)
  }

  /** The latest instant that anything counted has. */
  latest(): number {
    return Math.max(0, ...[...this.all.values()].flatMap(kept => kept.slots.map(({ at }) => at)))
  }

  private look(entry: Entry): ModelEntry {
    const { blockedUntil } = this.kept(entry)
    const limits = this.limits(entry)
    const full = limits.some(({ used, max }) => used + (entry.cost ?? 1) > max)
    const state = blockedUntil > this.now ? BLOCKED : full ? REFUSES : PASSES
    const blockedFor = Math.max(blockedUntil - this.now, 0)
    return { state, slot: undefined, blockedFor, limits: limits.map(({ used, reset }) => ({ used, reset })) }
  }

  private limits(entry: Entry): { max: number; used: number; reset: number }[] {
    const { spec } = entry
    const { slots, lockedUntil } = this.kept(entry)
    const { now } = this
    if (spec.kind === 'lock') {
      const reset = Math.max(lockedUntil - now, 0)
      return [{ max: 1, used: reset > 0 ? 1 : 0, reset }]
    }
    if (spec.kind === 'count') {
      const [start, end] = period(spec, now)
      const inside = slots.filter(({ at }) => at >= start && at < end)
      const used = inside.reduce((sum, { cost }) => sum + cost, 0)
      return [{ max: entry.max?.[0] ?? (spec.limits[0]?.max as number), used, reset: end - now }]
    }
    if (spec.kind === 'distinct')
      return spec.limits.map(({ max: most, windowMs }, i) => {
        const window = windowMs * TICKS_PER_MS
        const max = entry.max?.[i] ?? most
        const recent = (instant: number) => {
          const inside = slots.filter(({ at }) => at + window > instant).sort((a, b) => b.at - a.at)
          return [...new Set(inside.map(({ value }) => value))]
        }
        const othersAt = (instant: number) => recent(instant).filter(value => value !== entry.value).length
        const passes = othersAt(now) < max || recent(now).slice(0, max).includes(entry.value)
        const used = passes ? Math.min(othersAt(now), max - 1) : othersAt(now)
        const ends = slots
          .map(({ at }) => at + window)
          .filter(end => end > now && othersAt(end) < Math.min(used, max))
        return { max, used, reset: ends.length === 0 ? 0 : Math.min(...ends) - now }
      })
    return spec.limits.map(({ max: most, windowMs }, i) => {
      const window = windowMs * TICKS_PER_MS
      const max = entry.max?.[i] ?? most
      const usedAt = (instant: number) => slots.filter(({ at }) => at + window > instant).length
      const used = usedAt(now)
      // A slot returns when fewer are used than now, and fewer than max.
      const ends = slots.map(({ at }) => at + window).filter(end => usedAt(end) < Math.min(used, max))
      return { max, used, reset: ends.length === 0 ? 0 : Math.min(...ends) - now }
    })
  }

  private take(entry: Entry, token: string, now = this.now): Slot {
    const kept = this.kept(entry)
    if (entry.spec.kind === 'lock') {
      Object.assign(kept, { lockedUntil: now + entry.spec.ttl * TICKS_PER_MS, holder: token })
      return { at: now, value: undefined, cost: 1 }
    }
    // No two sends in a log share an instant, nor in a distinct log.
    const after = Math.max(...kept.slots.map(({ at }) => at + 1))
    const slot = {
      at: entry.spec.kind === 'count' ? now : Math.max(now, after),
      value: entry.value,
      cost: entry.cost ?? 1
    }
    kept.slots.push(slot)
    return slot
  }

  private kept({ spec, identity }: Entry): Kept {
    const key = `${identity} ${spec.name}`
    let kept = this.all.get(key)
    if (!kept) this.all.set(key, (kept = { slots: [], blockedUntil: 0, lockedUntil: 0, holder: '' }))
    return kept
  }
}

/** Start and end of the calendar period that holds an instant, for time zones that shift by whole hours. */
function period({ per, timeZone }: CountSpec, ticks: number): [number, number] {
  const at = Temporal.Instant.fromEpochMilliseconds(
    EPOCH_MS + Math.floor(ticks / TICKS_PER_MS)
  ).toZonedDateTimeISO(timeZone)
  const ticksOf = (time: Temporal.ZonedDateTime) => (time.epochMilliseconds - EPOCH_MS) * TICKS_PER_MS
  if (per === 'hour') {
    const start = at.round({ smallestUnit: 'hour', roundingMode: 'floor' })
    return [ticksOf(start), ticksOf(start.add({ hours: 1 }))]
  }
  const today = at.toPlainDate()
  const first =
    per === 'day'
      ? today
      : per === 'week'
        ? today.subtract({ days: today.dayOfWeek - 1 })
        : today.with({ day: 1 })
  const next = first.add({ [`${per}s`]: 1 })
  return [ticksOf(first.toZonedDateTime(timeZone)), ticksOf(next.toZonedDateTime(timeZone))]
}
