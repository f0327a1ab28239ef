import { writeSync } from 'node:fs'

/** So many bytes wait at most while the destination takes nothing; what comes beyond them is lost. */
const MOST = 1_048_576

/** Lines that wait to be written, the first one perhaps in part. */
export class Waiting {
  private readonly lines: Buffer[] = []
  private bytes = 0
  /** How much of the first one is written. */
  private written = 0

  get empty(): boolean {
    return this.lines.length === 0
  }

  hasRoomFor(line: Buffer): boolean {
    return this.bytes + line.length <= MOST
  }

  add(line: Buffer): void {
    this.lines.push(line)
    this.bytes += line.length
  }

  /** Writes them. @throws what the destination does not take: that waits on */
  writeTo(fd: number): void {
    for (let [line] = this.lines; line !== undefined; [line] = this.lines) {
      this.written += writeSync(fd, line, this.written)
      if (this.written < line.length) continue
      this.lines.shift()
      this.bytes -= line.length
      this.written = 0
    }
  }

  /** What was begun in another file is to stand whole in the next. */
  beginAnew(): void {
    this.written = 0
  }
}
