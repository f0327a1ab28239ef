import { StoreFullError } from '../errors.js'
import { Arena } from './arena.js'
import { conclude, type Fields, limitsOf, periodEnd, readCount, readLock, readLog, toTicks } from './reading.js'
import {
  type Entry, type Facts, type LogSpec, PASSES, REMEMBERED_REFUNDS, type Store, type Taken, TICKS_PER_MS
} from './store.js'

/** Milliseconds of a clock that never steps (any origin), and of the wall clock (since the epoch). */
export interface Clock {
  monotonic(): number
  wall(): number
}

export interface MemoryOptions {
  /** How many live keys are held at most. */
  maxKeys?: number
  clock?: Clock
}

const systemClock: Clock = { monotonic: () => performance.now(), wall: () => Date.now() }
// The wall clock may be set back: a count outlives its period by this much, in milliseconds.
const COUNT_SLACK = 3_600_000
const SWEEP_MS = 1_000
const SWEEP_BUDGET = 2_000

/** The embedded store: this process alone, bounded, cleaned as it is used and once a second. */
export class MemoryStore implements Store, Fields {
  readonly name = 'memory'
  private readonly arena: Arena
  private readonly clock: Clock
  private readonly forgettable = new Set<number>()
  private readonly locks = new Map<string, { ends: number; token: string }>()
  private readonly blocks = new Map<string, number>()
  private readonly sweeper: NodeJS.Timeout
  private now = 0
  private wall = 0
  private record = 0
  // No receipt up to this is issued again by a log or count that gave it back: two decisions may share a tick.
  private spent = 0

  constructor({ maxKeys = 1_000_000, clock = systemClock }: MemoryOptions = {}) {
    this.arena = new Arena({ maxKeys, evictable: slot => this.forgettable.has(slot) })
    this.clock = clock
    this.sweeper = setInterval(() => this.sweep(), SWEEP_MS).unref()
  }

  /** How many keys are live. */
  get size(): number {
    return this.arena.size
  }

  // The record in hand, read as fields.
  get length(): number {
    return this.record === 0 ? 0 : this.arena.length(this.record)
  }

  at(index: number): number {
    return this.arena.field(this.record, index)
  }

  reserve(entries: readonly Entry[], token: string): Facts {
    const facts = this.peek(entries) as number[]
    this.arena.expire(this.now, entries.length * 2)
    if (facts[1] === 0) return facts
    const skipped = observedRefusals(entries, facts)
    const taken: Taken[] = []
    let head = 2
    for (const entry of entries) {
      if (!skipped?.has(entry.spec.rule)) {
        const receipt = this.charge(entry, token)
        if (receipt === 0) {
          this.refund(taken, token)
          throw new StoreFullError()
        }
        facts[head + 1] = receipt
        taken.push({ entry, receipt, ends: entry.spec.kind === 'count' ? this.at(0) : 0 })
      }
      head += 2 + 2 * limitsOf(entry.spec)
    }
    return facts
  }

  peek(entries: readonly Entry[]): Facts {
    this.now = this.ticks()
    this.wall = toTicks(this.clock.wall())
    const facts = [this.wall, 1]
    for (const entry of entries) {
      const { identity, spec } = entry
      if (spec.kind === 'lock') {
        readLock(facts, this.locks.get(keyOf(entry))?.ends ?? 0, this.now)
        continue
      }
      this.record = this.arena.find(identity, spec.slot)
      const blocked = this.blocks.size > 0 && (this.blocks.get(keyOf(entry)) ?? 0) > this.now
      if (spec.kind === 'log') readLog(facts, entry, this, this.now, blocked)
      else readCount(facts, entry, this, this.wall, blocked)
    }
    conclude(facts, entries)
    return facts
  }

  refund(taken: readonly Taken[], token: string): void {
    for (const { entry, receipt, ends } of taken) {
      const { identity, spec } = entry
      if (spec.kind === 'lock') {
        if (this.locks.get(keyOf(entry))?.token === token) this.locks.delete(keyOf(entry))
        continue
      }
      this.record = this.arena.find(identity, spec.slot)
      if (this.record === 0) continue
      if (spec.kind === 'log') this.refundStamp(entry, receipt)
      else this.refundCount(entry, receipt, ends)
    }
  }

  renew(entries: readonly Entry[], token: string): boolean {
    const now = this.ticks()
    let all = true
    for (const entry of entries) {
      const lock = this.locks.get(keyOf(entry))
      if (lock?.token === token && lock.ends > now) lock.ends = now + entry.spec.ttl * TICKS_PER_MS
      else all = false
    }
    return all
  }

  clear(entries: readonly Entry[]): void {
    for (const entry of entries) {
      this.locks.delete(keyOf(entry))
      const record = this.arena.find(entry.identity, entry.spec.slot)
      if (record === 0) continue
      this.spent = Math.max(this.spent, this.arena.field(record, entry.spec.kind === 'log' ? 0 : 2))
      this.arena.remove(record)
    }
  }

  block(entries: readonly Entry[], ms: number): void {
    const ends = ms === 0 ? Infinity : this.ticks() + ms * TICKS_PER_MS
    for (const entry of entries) this.blocks.set(keyOf(entry), ends)
  }

  unblock(entries: readonly Entry[]): void {
    for (const entry of entries) this.blocks.delete(keyOf(entry))
  }

  close(): void {
    clearInterval(this.sweeper)
  }

  private charge(entry: Entry, token: string): number {
    const { identity, spec } = entry
    if (spec.kind === 'lock') {
      this.locks.set(keyOf(entry), { ends: this.now + spec.ttl * TICKS_PER_MS, token })
      return 1
    }
    if (spec.forgettable) this.forgettable.add(spec.slot)
    this.record = this.arena.find(identity, spec.slot)
    return spec.kind === 'log' ? this.chargeLog(entry, spec) : this.chargeCount(entry)
  }

  private chargeLog({ identity }: Entry, spec: LogSpec): number {
    const { arena, now } = this
    const stamp = Math.max(now, this.spent + 1, this.length > 0 ? this.at(0) + 1 : 0)
    const length = Math.min(this.length + 1, spec.keep)
    this.record = arena.resize(identity, spec.slot, this.record, length)
    if (this.record === 0) return 0
    arena.move(this.record, 1, 0, length - 1)
    arena.set(this.record, 0, stamp)
    arena.touch(this.record, stamp + spec.ttl * TICKS_PER_MS)
    return stamp
  }

  private chargeCount({ identity, spec }: Entry): number {
    const { arena, now, wall } = this
    if (spec.kind !== 'count') return 0
    const ends = periodEnd(spec, wall)
    const live = this.length > 0 && this.at(0) > wall
    const used = live ? this.at(1) : 0
    // Receipts begin at the clock: those of a count that was cleared are never issued again.
    const issued = live ? this.at(2) : Math.max(now, this.spent)
    this.record = arena.resize(identity, spec.slot, this.record, live ? this.length : 3)
    if (this.record === 0) return 0
    arena.set(this.record, 0, ends)
    arena.set(this.record, 1, used + 1)
    arena.set(this.record, 2, issued + 1)
    arena.touch(this.record, now + ends - wall + COUNT_SLACK * TICKS_PER_MS)
    return issued + 1
  }

  private refundStamp({ identity, spec }: Entry, stamp: number): void {
    const { arena, length } = this
    let i = 0
    while (i < length && this.at(i) > stamp) i++
    if (i === length || this.at(i) !== stamp) return
    this.spent = Math.max(this.spent, stamp)
    if (length === 1) return arena.remove(this.record)
    arena.move(this.record, i, i + 1, length - 1 - i)
    arena.resize(identity, spec.slot, this.record, length - 1)
  }

  private refundCount({ identity, spec }: Entry, receipt: number, ends: number): void {
    const { arena, length } = this
    if (this.at(0) !== ends || receipt > this.at(2)) return
    // Issued before the count was cleared.
    if (receipt <= this.at(2) - this.at(1) - (length - 3)) return
    let place = length
    while (place > 3 && this.at(place - 1) > receipt) place--
    if (place > 3 && this.at(place - 1) === receipt) return
    if (length - 3 === REMEMBERED_REFUNDS) {
      if (place === 3) return
      place--
      arena.move(this.record, 3, 4, place - 3)
    } else {
      const record = arena.resize(identity, spec.slot, this.record, length + 1)
      if (record === 0) return
      this.record = record
      arena.move(record, place + 1, place, length - place)
    }
    arena.set(this.record, place, receipt)
    arena.set(this.record, 1, this.at(1) - 1)
  }

  // From 1: a receipt of 0 means that nothing was counted.
  private ticks(): number {
    return Math.floor(this.clock.monotonic() * TICKS_PER_MS) + 1
  }

  private sweep(): void {
    const now = this.ticks()
    this.arena.expire(now, SWEEP_BUDGET)
    for (const [key, { ends }] of this.locks) if (ends <= now) this.locks.delete(key)
    for (const [key, ends] of this.blocks) if (ends <= now) this.blocks.delete(key)
  }
}

/** Rules that are only observed and would refuse, or nothing: those are not counted. */
function observedRefusals(entries: readonly Entry[], facts: Facts): Set<number> | undefined {
  let refused: Set<number> | undefined
  let head = 2
  for (const { spec } of entries) {
    if (spec.observed && facts[head] !== PASSES) {
      refused ??= new Set()
      refused.add(spec.rule)
    }
    head += 2 + 2 * limitsOf(spec)
  }
  return refused
}

function keyOf({ identity, spec }: Entry): string {
  return `${identity}:${spec.slot}`
}
