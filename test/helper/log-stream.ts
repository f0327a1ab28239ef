import { Writable } from 'node:stream'

/** A stream for pino that keeps each line that is written. */
export function logStream(): { lines: string[]; stream: Writable } {
  const lines: string[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      lines.push(`${chunk}`)
      done()
    }
  })
  return { lines, stream }
}
