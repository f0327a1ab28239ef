import type { Clock } from '../../plugin/clock.js'
import { EPOCH_MS, TICKS_PER_MS } from '../../plugin/store/store.js'
import type { Clock as RedisClock } from '../helper/clock.js'

/** The ticks of a date, such as `2026-03-01T00:00:00Z`. */
function ticksOf(date: string): number {
  return (Date.parse(date) - EPOCH_MS) * TICKS_PER_MS
}

/** One time for all stores of a test, in ticks. It stands still until it is moved. */
export class Time {
  ticks = 0

  constructor(
    start: string,
    private readonly redis?: RedisClock
  ) {
    this.set(ticksOf(start))
  }

  set(ticks: number): void {
    this.ticks = ticks
    this.redis?.set(EPOCH_MS + ticks / TICKS_PER_MS)
  }

  advance(ticks: number): void {
    this.set(this.ticks + ticks)
  }

  advanceMs(ms: number): void {
    this.advance(ms * TICKS_PER_MS)
  }

  /** For the memory store. Both clocks move together, and stand in the middle of a tick. */
  get clock(): Clock {
    const ms = () => (this.ticks + 0.5) / TICKS_PER_MS
    return { monotonic: () => ms() - ORIGIN_MS, wall: () => EPOCH_MS + ms() }
  }
}

// The monotonic clock has an origin of its own.
const ORIGIN_MS = 1_000_000
