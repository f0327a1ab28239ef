/** So many leave together at most: Redis is at nothing else while it decides, 20 µs each. */
const MOST = 32

/**
 * Gathers what is asked in one turn of the event loop, so that it leaves together: alone, each costs Redis and this
 * process as much again. It waits for others until they are half of all that have no answer yet, so that Redis is at one
 * half while this process is at the other; no longer than until each socket was read that had something; and not at all
 * when it is alone.
 */
export class Batch<T> {
  private gathered: T[] = []
  private unanswered = 0

  /** @param send sends what was gathered */
  constructor(private readonly send: (together: T[]) => void) {}

  add(asked: T): void {
    this.unanswered++
    if (this.gathered.push(asked) * 2 >= Math.min(this.unanswered, 2 * MOST)) this.flush()
    else if (this.gathered.length === 1) setImmediate(() => this.flush())
  }

  /** Hears how many were answered. */
  answered(count: number): void {
    this.unanswered -= count
  }

  private flush(): void {
    if (this.gathered.length === 0) return
    const together = this.gathered
    this.gathered = []
    this.send(together)
  }
}
