import { setImmediate } from 'node:timers'

// As it is when this is loaded: a test may replace it with one that waits for a clock of its own.
const { nextTick } = process

/** So many are worth a call of their own. */
const LEAST = 8
/** So many leave together at most: Redis is at nothing else while it decides, 20 µs each. */
const MOST = 32

/**
 * Gathers what is asked in one turn of the event loop, so that it leaves together: alone, each costs Redis and this
 * process as much again. It leaves
 * - when it holds `LEAST` and half of all that have no answer yet, or `MOST`: Redis is at one half while this process is at
 *   the other;
 * - else at the end of the turn, or at the next tick where nothing was on its way.
 */
export class Batch<T> {
  private gathered: T[] = []
  private unanswered = 0

  /** @param send sends what was gathered */
  constructor(private readonly send: (together: T[]) => void) {}

  add(asked: T): void {
    const idle = this.unanswered++ === 0
    const count = this.gathered.push(asked)
    if (count >= LEAST && count * 2 >= Math.min(this.unanswered, 2 * MOST)) this.flush()
    else if (count === 1) (idle ? nextTick : setImmediate)(() => this.flush())
  }

  /** Hears how many were answered. */
  answered(count: number): void {
    this.unanswered = Math.max(this.unanswered - count, 0)
  }

  /** Hears that nothing which is on its way will be answered any more. */
  lost(): void {
    this.unanswered = this.gathered.length
  }

  private flush(): void {
    if (this.gathered.length === 0) return
    const together = this.gathered
    this.gathered = []
    this.send(together)
  }
}
