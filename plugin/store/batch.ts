import { setImmediate } from 'node:timers'

// Taken when the module is loaded: a test may replace `process.nextTick` by one that waits for a fake clock.
const { nextTick } = process

/** How many calls are worth a command of their own. */
const LEAST = 8
/** How many calls leave together at most: Redis does nothing else while it decides, 20 µs each. */
const MOST = 32

/**
 * Gathers the calls of one turn of the event loop, so that they leave together: alone, each would cost Redis and this
 * process twice as much. The batch leaves
 * - as soon as it holds `LEAST` calls and half of all that have no answer yet, or `MOST`: so Redis works on one half
 *   while this process works on the other;
 * - else at the end of the turn, or at the next tick if no call was under way.
 */
export class Batch<T> {
  private gathered: T[] = []
  private unanswered = 0

  /** @param send sends the gathered calls */
  constructor(private readonly send: (together: T[]) => void) {}

  add(asked: T): void {
    const idle = this.unanswered++ === 0
    const count = this.gathered.push(asked)
    if (count >= LEAST && count * 2 >= Math.min(this.unanswered, 2 * MOST)) this.flush()
    else if (count === 1) (idle ? nextTick : setImmediate)(() => this.flush())
  }

  /** Notes that `count` calls were answered. */
  answered(count: number): void {
    this.unanswered = Math.max(this.unanswered - count, 0)
  }

  /** Notes that no call under way will be answered any more. */
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
