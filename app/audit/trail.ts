import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError } from '../check.js'
import { Waiting } from './waiting.js'

/** Where the lines of the audit trail go. */
export interface Trail {
  /** Writes one line, at once; what goes wrong is reported, never thrown. */
  write(line: string): void
  /** Ends it when what waits is written, or has been tried for two seconds. */
  close(): Promise<void>
}

/** How long until a pipe that is full is tried again, in milliseconds; so often at the end. */
const TRY_AGAIN = 50
const LAST_TRIES = 40

/** Readable by its owner alone. */
const MODE = 0o600

const STDOUT = 1

/**
 * Opens the trail. A file is appended to, a new one readable by its owner alone, and opened anew on SIGHUP, so that a log
 * can be rotated by renaming it.
 * @param to the path of a file, or `stdout`
 * @param report hears of a failure once, until writing works again
 * @throws ConfigError when the file cannot be opened
 */
export function openTrail(to: string, report: (error: unknown) => void): Trail {
  let fd = STDOUT
  try {
    if (to !== 'stdout') fd = openFile(to)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new ConfigError(`AUDIT_LOG (${JSON.stringify(to)}) cannot be written: ${code}.`)
  }
  let closed = false
  let midLine = to !== 'stdout' && breaksOff(fd, to)
  const waiting = new Waiting()
  let retrying: NodeJS.Timeout | undefined
  const told = new Set<string>()
  const once = (kind: 'failing' | 'losing', error: unknown) => {
    if (!told.has(kind)) report(error)
    told.add(kind)
  }
  const lost = (why: string) => once('losing', new Error(`lines are lost: ${why}`))
  /** @returns whether what waits may be taken soon: a pipe was full */
  const flush = (): boolean => {
    try {
      if (midLine) writeSync(fd, '\n')
      midLine = false
      waiting.writeTo(fd)
      // Not before: who reads a pipe slowly would have each line told of.
      told.clear()
      return false
    } catch (error) {
      once('failing', error)
      return (error as NodeJS.ErrnoException).code === 'EAGAIN'
    }
  }
  // The next line may be long in coming.
  const pour = () => {
    if (!flush() || retrying !== undefined) return
    retrying = setTimeout(() => {
      retrying = undefined
      pour()
    }, TRY_AGAIN).unref()
  }
  const reopen = () => {
    try {
      const former = fd
      fd = openFile(to)
      midLine = breaksOff(fd, to)
      waiting.beginAnew()
      closeSync(former)
    } catch (error) {
      report(error)
    }
    pour()
  }
  if (to !== 'stdout') process.on('SIGHUP', reopen)
  return {
    write(line) {
      if (closed) return lost('they came after the end')
      const bytes = Buffer.from(`${line}\n`)
      // There may be room by now.
      if (!waiting.hasRoomFor(bytes)) flush()
      if (!waiting.hasRoomFor(bytes)) return lost('too many wait to be written')
      waiting.add(bytes)
      pour()
    },
    async close() {
      if (closed) return
      closed = true
      process.removeListener('SIGHUP', reopen)
      clearTimeout(retrying)
      for (let tries = 0; flush() && tries < LAST_TRIES; tries++) await sleep(TRY_AGAIN)
      if (!waiting.empty) lost('they waited to be written until the end')
      try {
        if (to !== 'stdout') closeSync(fd)
      } catch (error) {
        report(error)
      }
    }
  }
}

/** @throws when it cannot be opened, or is a pipe without a reader */
function openFile(file: string): number {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants
  // Nor is anybody waited for who reads a pipe slowly.
  return openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, MODE)
}

/** Whether the last line of a file broke off, as on a full disk; of one that may not be read that is not known. */
function breaksOff(fd: number, file: string): boolean {
  const { size } = fstatSync(fd)
  if (size === 0) return false
  let reader: number | undefined
  try {
    reader = openSync(file, 'r')
    const last = Buffer.alloc(1)
    return readSync(reader, last, 0, 1, size - 1) === 1 && last.toString() !== '\n'
  } catch {
    return false
  } finally {
    if (reader !== undefined) closeSync(reader)
  }
}
