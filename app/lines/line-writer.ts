import { writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Waiting } from './waiting.js'

/** The pause until a full pipe is tried again, in milliseconds; and the most pauses of `close`. */
const TRY_AGAIN = 50
const LAST_TRIES = 40

/**
 * Writes lines at once to an open file, a pipe or a device. What the destination does not take waits for the next line,
 * or if a pipe is full, for 50 ms. Failures are reported, never thrown.
 */
export class LineWriter {
  private readonly waiting = new Waiting()
  /** The kinds of failures reported since writing last worked: `losing`, and codes of errors. */
  private readonly reported = new Set<unknown>()
  private retrying: NodeJS.Timeout | undefined
  private closed = false

  /**
   * @param fd the destination; a pipe must be non-blocking
   * @param report called once for each kind of failure, until writing works again
   * @param midLine whether the last line of the destination broke off
   */
  constructor(
    private fd: number,
    private readonly report: (error: unknown) => void,
    private midLine = false
  ) {}

  /** @param line with its line break */
  write(line: string): void {
    if (this.closed) return this.lost('they came after the end')
    const bytes = Buffer.from(line)
    // There may be room by now.
    if (!this.waiting.hasRoomFor(bytes)) this.flush()
    if (!this.waiting.hasRoomFor(bytes)) return this.lost('too many wait to be written')
    this.waiting.add(bytes)
    this.pour()
  }

  /** Changes the destination. What waits is written there first. */
  moveTo(fd: number, midLine: boolean): void {
    this.fd = fd
    this.midLine = midLine
    this.waiting.beginAnew()
    this.pour()
  }

  /**
   * Resolves when what waits is written. Gives it up after two seconds of a full pipe, and at once after any other
   * failure. The opener of the file closes it.
   */
  async close(): Promise<void> {
    this.closed = true
    clearTimeout(this.retrying)
    for (let tries = 0; this.flush() && tries < LAST_TRIES; tries++) await sleep(TRY_AGAIN)
    if (!this.waiting.empty) this.lost('they waited to be written until the end')
  }

  // Tries again by itself, since the next line may be long in coming.
  private pour(): void {
    if (!this.flush() || this.retrying !== undefined) return
    this.retrying = setTimeout(() => {
      this.retrying = undefined
      this.pour()
    }, TRY_AGAIN).unref()
  }

  /** @returns whether another try may help soon: a pipe was full */
  private flush(): boolean {
    try {
      if (this.midLine) writeSync(this.fd, '\n')
      this.midLine = false
      this.waiting.writeTo(this.fd)
      // Only when all is written: otherwise a slow reader of a pipe would make each line be reported.
      this.reported.clear()
      return false
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      this.reportOnce(code, error)
      return code === 'EAGAIN'
    }
  }

  private lost(why: string): void {
    this.reportOnce('losing', new Error(`lines are lost: ${why}`))
  }

  private reportOnce(kind: unknown, error: unknown): void {
    if (!this.reported.has(kind)) this.report(error)
    this.reported.add(kind)
  }
}
