import { type Clock, systemClock } from '../clock.js'
import { StoreFullError } from '../errors.js'
import { kindOf } from '../limits/index.js'
import type { Now } from '../limits/kind.js'
import { Arena } from './arena.js'
import { ArenaCell } from './arena-cell.js'
import { Blocks } from './blocks.js'
import { ADMITTED, type Facts, FIRST, factsOf, RECEIPT } from './facts.js'
import { factsAt, observedRefusals, readEntry } from './reading.js'
import { type Entry, type Store, specInForce, type Taken, TICKS_PER_MS, toTicks } from './store.js'
import { takenOf } from './taken.js'

interface MemoryOptions {
  /** How many live keys are held at most. */
  maxKeys?: number
  clock?: Clock
}

const SWEEP_MS = 1_000
/** How many expired keys a sweep drops at most. */
const SWEPT_KEYS = 2_000
/** How many blocks a sweep looks at: for 500,000 it takes 20 ms to look at them, and 100 ms to drop them. */
const SWEPT_BLOCKS = 10_000
/** A period that has begun by this tick ends before the latest time that a field can hold, early in 2109. */
const LAST_WALL = 2 ** 48 - 32 * 86_400_000 * TICKS_PER_MS

/**
 * The embedded store of one app. It is bounded, and drops expired keys as it is used and once a second. It forgets
 * within a second the texts that it was asked about.
 */
export class MemoryStore implements Store {
  readonly name = 'memory'
  private readonly arena: Arena
  private readonly cell: ArenaCell
  private readonly clock: Clock
  /** The tick of the monotonic clock just before this store began: its own ticks count from there. */
  private readonly origin: number
  private readonly forgettable = new Set<number>()
  private readonly blocks = new Blocks()
  private readonly sweeper: NodeJS.Timeout
  // The latest receipt that may have been given back. None is given out twice, though two decisions may share a tick.
  private spent = 0

  constructor({ maxKeys = 1_000_000, clock = systemClock }: MemoryOptions = {}) {
    this.arena = new Arena({ maxKeys, evictable: series => this.forgettable.has(series) })
    this.cell = new ArenaCell(this.arena)
    this.clock = clock
    this.origin = Math.floor(clock.monotonic() * TICKS_PER_MS) - 1
    this.sweeper = setInterval(() => this.sweep(), SWEEP_MS).unref()
  }

  /** How many keys are held, with those that have expired but are not dropped yet. */
  get size(): number {
    return this.arena.size
  }

  /** The present tick of the clock that never steps, by which rolling limits and locks count. */
  get ticks(): number {
    return Math.floor(this.clock.monotonic() * TICKS_PER_MS) - this.origin
  }

  reserve(entries: readonly Entry[], token: string): Facts {
    const now = this.now()
    this.arena.expire(now.steady, entries.length * 2)
    const facts = this.read(entries, now)
    if (facts[ADMITTED] === 0) return facts
    const skipped = observedRefusals(entries, facts)
    let head = FIRST
    for (const entry of entries) {
      const { spec } = entry
      if (!skipped?.has(spec.rule)) {
        const receipt = this.countIn(entry, now, token)
        // An observed rule refuses nobody, not even for want of room.
        if (receipt === 0 && !spec.observed) {
          this.undo(takenOf(entries, facts), token)
          throw new StoreFullError()
        }
        facts[head + RECEIPT] = receipt
      }
      head += factsOf(spec)
    }
    return facts
  }

  count(entry: Entry, ago: number, ends = 0): number {
    const now = this.now()
    this.arena.expire(now.steady, 2)
    if (ago >= specInForce(entry.spec).ttl * TICKS_PER_MS) return 0
    this.mark(entry)
    return this.countIn(entry, { ...now, fresh: Math.max(now.steady - ago, this.spent + 1) }, '', ends)
  }

  peek(entries: readonly Entry[]): Facts {
    return this.read(entries, this.now())
  }

  /** @throws StoreFullError when a slot stays counted for want of room */
  refund(taken: readonly Taken[], token: string): void {
    if (!this.giveBack(taken, token)) throw new StoreFullError()
  }

  /** @returns false when there was no room to note that a slot was given back: that slot stays counted */
  giveBack(taken: readonly Taken[], token: string): boolean {
    let all = true
    for (const each of taken) {
      const { identity, spec } = each.entry
      const cell = this.cell.open(identity, spec)
      this.spent = Math.max(this.spent, kindOf(spec).latest(cell))
      if (!kindOf(spec).refund(cell, each, token)) all = false
    }
    return all
  }

  renew({ identity, spec }: Entry, token: string): boolean {
    const cell = this.cell.open(identity, spec)
    return kindOf(spec).renew?.(cell, this.now(), spec, token) ?? false
  }

  /** The last receipt that was given out for an entry and is still there; 0 when there is none, and for a lock. */
  latest({ identity, spec }: Entry): number {
    const { kept, latest } = kindOf(spec)
    return (kept ?? latest)(this.cell.open(identity, spec))
  }

  clear(entries: readonly Entry[]): void {
    for (const { identity, spec } of entries) {
      const cell = this.cell.open(identity, spec)
      this.spent = Math.max(this.spent, kindOf(spec).latest(cell))
      cell.resize(0)
    }
  }

  block(entries: readonly Entry[], ms: number): void {
    const ends = ms === 0 ? Number.POSITIVE_INFINITY : this.ticks + ms * TICKS_PER_MS
    // Looks at two blocks for each new one, so that those that have ended do not pile up.
    this.blocks.sweep(this.ticks, entries.length * 2)
    for (const entry of entries) this.blocks.set(entry, ends)
  }

  unblock(entries: readonly Entry[]): void {
    for (const entry of entries) this.blocks.delete(entry)
  }

  close(): void {
    clearInterval(this.sweeper)
  }

  // Takes back what a decision counted before it found no room. It leaves no trace, since many may be refused so one
  // after another.
  private undo(taken: readonly Taken[], token: string): void {
    for (const each of taken) {
      const { identity, spec } = each.entry
      const { undo } = kindOf(spec)
      if (undo) undo(this.cell.open(identity, spec), each.entry)
      else this.refund([each], token)
    }
  }

  /** Notes whether the entry's series may be forgotten: its rule may have replaced one that counts otherwise. */
  private mark({ spec }: Entry): void {
    const { forgettable, series } = specInForce(spec)
    if (forgettable) this.forgettable.add(series)
    else if (this.forgettable.size > 0) this.forgettable.delete(series)
  }

  private countIn(entry: Entry, now: Now, token: string, ends = 0): number {
    const { identity, spec } = entry
    const cell = this.cell.open(identity, spec)
    return kindOf(spec).count(cell, now, entry, token, ends)
  }

  private read(entries: readonly Entry[], now: Now): number[] {
    this.arena.findAll(entries)
    const facts = factsAt(now.wall, entries)
    let head = FIRST
    for (const entry of entries) {
      this.mark(entry)
      const blockedFor = this.blocks.left(entry, now.steady)
      readEntry(facts, head, entry, this.cell.open(entry.identity, entry.spec), now, blockedFor)
      head += factsOf(entry.spec)
    }
    return facts
  }

  // Ticks begin at 1, since a receipt of 0 means that nothing was counted; a receipt ahead of the clock would leave its
  // window late.
  private now(): Now {
    const steady = this.ticks
    // A machine that does not know the time yet may be in 1970, or after 2109.
    const wall = Math.min(Math.max(toTicks(this.clock.wall()), 0), LAST_WALL)
    return { steady, wall, fresh: Math.max(steady, this.spent + 1) }
  }

  private sweep(): void {
    const steady = this.ticks
    this.cell.forget()
    this.blocks.forget()
    this.arena.expire(steady, SWEPT_KEYS)
    this.blocks.sweep(steady, SWEPT_BLOCKS)
  }
}
