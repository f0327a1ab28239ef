import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { ConfigError } from '../check.js'
import { LineWriter } from '../lines/line-writer.js'

/** Readable and writable by the owner only. */
const MODE = 0o600

/** Where the lines of the audit trail go. */
interface Trail {
  /** Writes a line at once. @param line without its line break */
  write(line: string): void
  /** Closes the file when what waits is written or given up (`LineWriter.close`). */
  close(): Promise<void>
}

/**
 * Opens the file of the audit trail. Lines are appended. A new file is readable by its owner only. On SIGHUP the file
 * is opened again, so that it can be rotated by renaming it.
 * @param report called once for each kind of failure to write, until writing works again; and whenever the file cannot
 * be opened again or closed
 * @throws ConfigError when the file cannot be opened
 */
export function openTrail(file: string, report: (error: unknown) => void): Trail {
  let fd: number
  try {
    fd = openFile(file)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new ConfigError(`AUDIT_LOG (${JSON.stringify(file)}) cannot be written: ${code}.`)
  }
  const writer = new LineWriter(fd, report, breaksOff(fd, file))
  let closed = false
  const reopen = () => {
    try {
      const [former, next] = [fd, openFile(file)]
      writer.moveTo(next, breaksOff(next, file))
      fd = next
      closeSync(former)
    } catch (error) {
      report(error)
    }
  }
  process.on('SIGHUP', reopen)
  return {
    write: line => writer.write(`${line}\n`),
    async close() {
      if (closed) return
      closed = true
      process.removeListener('SIGHUP', reopen)
      await writer.close()
      try {
        closeSync(fd)
      } catch (error) {
        report(error)
      }
    }
  }
}

/** @throws when the file cannot be opened, or is a pipe without a reader */
function openFile(file: string): number {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants
  // O_NONBLOCK: a slow reader of a pipe is not waited for, either.
  return openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, MODE)
}

/** Whether the last line of a file broke off, as on a full disk; false if the file may not be read. */
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
