import { closeSync, constants, openSync } from 'node:fs'
import pino from 'pino'
import { ConfigError } from '../check.js'

/** Where the lines of the audit trail go. */
export interface Trail {
  /** Writes one line, at once; what goes wrong is reported, never thrown. */
  write(line: string): void
  close(): void
}

/** What waits while the destination takes nothing; beyond it lines are lost, and that is reported. */
const MAX_WAITING_BYTES = 1_048_576

/** Readable by its owner alone. */
const MODE = 0o600

/**
 * Opens the trail. A file is appended to, readable by its owner alone, and opened anew on SIGHUP, so that a log can
 * be rotated by renaming it.
 * @param to the path of a file, or `stdout`
 * @param report hears of a failure once, until writing works again
 * @throws ConfigError when the file cannot be opened
 */
export function openTrail(to: string, report: (error: unknown) => void): Trail {
  const destination = open(to)
  const told = new Set<string>()
  const once = (kind: 'failing' | 'losing', error: unknown) => {
    if (!told.has(kind)) report(error)
    told.add(kind)
  }
  const failed = (error: unknown) => once('failing', error)
  const lost = (why: string) => once('losing', new Error(`lines are lost: ${why}`))
  // pino's own listener makes it silent for good when nobody reads a pipe; the next who does is to find what waits.
  destination.removeAllListeners('error')
  destination.on('error', failed)
  destination.on('drop', () => lost('too many wait to be written'))
  destination.on('write', () => told.clear())
  const reopen = () => {
    try {
      whileOpen(to, () => destination.reopen())
    } catch (error) {
      // It still waits for this file, and would close the old one once more with the next.
      destination.removeAllListeners('ready')
      report(error)
    }
  }
  if (to !== 'stdout') process.on('SIGHUP', reopen)
  const write = (text: string) => {
    try {
      destination.write(text)
    } catch (error) {
      failed(error)
    }
  }
  return {
    write: line => write(`${line}\n`),
    close() {
      process.removeListener('SIGHUP', reopen)
      if (told.has('failing')) {
        // What waits is tried once more.
        write('')
        if (told.has('failing')) lost('they waited to be written until the end')
      }
      destination.destroy()
    }
  }
}

/**
 * Does something while the file is open.
 * @throws when it cannot be opened, or is a pipe without a reader, for whom opening it otherwise would wait
 */
function whileOpen<T>(file: string, what: () => T): T {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants
  const fd = openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, MODE)
  try {
    return what()
  } finally {
    closeSync(fd)
  }
}

function open(to: string) {
  const destination = () =>
    pino.destination({
      dest: to === 'stdout' ? 1 : to,
      sync: true,
      append: true,
      mode: MODE,
      maxLength: MAX_WAITING_BYTES,
      // Trying again at once would hold up the process; the next line tries.
      retryEAGAIN: () => false
    })
  try {
    return to === 'stdout' ? destination() : whileOpen(to, destination)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new ConfigError(`AUDIT_LOG (${JSON.stringify(to)}) cannot be written: ${code}.`)
  }
}
