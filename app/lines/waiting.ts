import { writeSync } from 'node:fs'

/** The most bytes that wait while the destination takes nothing. Lines beyond them are lost. */
const MOST = 1_048_576

/** Lines that wait to be written. A part of the first one may be written already. */
export class Waiting {
  private readonly lines: Buffer[] = []
  private bytes = 0
  /** How many bytes of the first line are written. */
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

  /** Writes the lines. @throws when the destination does not take one; it and those after it go on waiting */
  writeTo(fd: number): void {
    for (let [line] = this.lines; line !== undefined; [line] = this.lines) {
      this.written += writeSync(fd, line, this.written)
      if (this.written < line.length) continue
      this.lines.shift()
      this.bytes -= line.length
      this.written = 0
    }
  }

  /** Writes the first line from its start again: a line begun in one file must be whole in the next. */
  beginAnew(): void {
    this.written = 0
  }
}
