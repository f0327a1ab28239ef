import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { arch, tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const source = fileURLToPath(new URL('clock.c', import.meta.url))

/** The time as a Redis server of a test sees it. It stands still until the test moves it. */
export interface Clock {
  /** Milliseconds since 1970, to the microsecond. */
  now(): number
  /** Sets the time to milliseconds since 1970, rounded to the microsecond. */
  set(ms: number): void
  /** Moves the time by milliseconds, rounded to the microsecond. */
  advance(ms: number): void
}

// Test files run in processes of their own. Each compiles to a name of its own, and the last rename wins.
function compile(): string {
  const hash = createHash('sha256').update(readFileSync(source)).update(arch()).digest('hex').slice(0, 16)
  const folder = join(tmpdir(), `fastify-send-limit-${userInfo().uid}`)
  const library = join(folder, `clock-${hash}.so`)
  if (existsSync(library)) return library
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const own = `${library}.${process.pid}`
  execFileSync('cc', ['-shared', '-fPIC', '-O2', '-Wall', '-Wextra', '-o', own, source])
  renameSync(own, library)
  return library
}

/**
 * A clock in `folder`, and the environment under which a server follows it. Linux only.
 * @param startMs milliseconds since 1970
 */
export function createClock(folder: string, startMs: number) {
  const file = join(folder, 'clock')
  const fd = openSync(file, 'w+')
  const bytes = Buffer.alloc(8)
  let micros = 0
  function write(value: number): void {
    micros = value
    bytes.writeBigInt64LE(BigInt(micros))
    writeSync(fd, bytes, 0, 8, 0)
  }
  const clock: Clock = {
    now: () => micros / 1_000,
    set: ms => write(Math.round(ms * 1_000)),
    advance: ms => write(micros + Math.round(ms * 1_000))
  }
  clock.set(startMs)
  return { clock, env: { LD_PRELOAD: compile(), TEST_CLOCK: file }, close: () => closeSync(fd) }
}
