import { writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Waiting } from './waiting.js'

/** How long until a pipe that is full is tried again, in milliseconds; so often at the end. */
const TRY_AGAIN = 50
const LAST_TRIES = 40

/**
 * Writes lines at once to an open file, a pipe or a device. What it does not take waits for the next line, of a pipe for
 * 50 ms; what goes wrong is reported, never thrown.
 */
export class LineWriter {
  private readonly waiting = new Waiting()
  /** What was told of since writing last worked: `losing`, and codes of errors. */
  private readonly told = new Set<unknown>()
  private retrying: NodeJS.Timeout | undefined
  private closed = false

  /**
   * @param fd a pipe must not block
   * @param report hears of each kind of failure once, until writing works again
   * @param midLine whether the last line there broke off
   */
  constructor(
    private fd: number,
    private readonly report: (error: unknown) => void,
    private midLine = false
  ) {}

  /** @param line with its end */
  write(line: string): void {
    if (this.closed) return this.lost('they came after the end')
    const bytes = Buffer.from(line)
    // There may be room by now.
    if (!this.waiting.hasRoomFor(bytes)) this.flush()
    if (!this.waiting.hasRoomFor(bytes)) return this.lost('too many wait to be written')
    this.waiting.add(bytes)
    this.pour()
  }

  /** From now on writes there, at first what waits. */
  moveTo(fd: number, midLine: boolean): void {
    this.fd = fd
    this.midLine = midLine
    this.waiting.beginAnew()
    this.pour()
  }

  /** Ends when what waits is written, or has been tried for two seconds. The file is its opener's to close. */
  async close(): Promise<void> {
    this.closed = true
    clearTimeout(this.retrying)
    for (let tries = 0; this.flush() && tries < LAST_TRIES; tries++) await sleep(TRY_AGAIN)
    if (!this.waiting.empty) this.lost('they waited to be written until the end')
  }

  // The next line may be long in coming.
  private pour(): void {
    if (!this.flush() || this.retrying !== undefined) return
    this.retrying = setTimeout(() => {
      this.retrying = undefined
      this.pour()
    }, TRY_AGAIN).unref()
  }

  /** @returns whether what waits may be taken soon: a pipe was full */
  private flush(): boolean {
    try {
      if (this.midLine) writeSync(this.fd, '\n')
      this.midLine = false
      this.waiting.writeTo(this.fd)
      // Not before: who reads a pipe slowly would have each line told of.
      this.told.clear()
      return false
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      this.tell(code, error)
      return code === 'EAGAIN'
    }
  }

  private lost(why: string): void {
    this.tell('losing', new Error(`lines are lost: ${why}`))
  }

  private tell(kind: unknown, error: unknown): void {
    if (!this.told.has(kind)) this.report(error)
    this.told.add(kind)
  }
}
