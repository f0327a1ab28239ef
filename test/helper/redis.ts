import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { type Clock, createClock } from './clock.js'
import { folderOf } from './folder.js'
import { type Launched, launch } from './launcher.js'
import type { Teardown } from './teardown.js'
import { until } from './until.js'

const START_LIMIT_MS = 20_000

/**
 * Turns off a thread of Redis's allocator, which would never rest: it sleeps until an instant of the test's clock,
 * which for the kernel is long over.
 */
const NO_SLEEPER = ['--jemalloc-bg-thread', 'no']

interface RedisOptions {
  /** A fixed port, to come back where a server was; by default a free one. */
  port?: number
  /** Whether it is a node of a cluster, which has met no other yet. Its cluster bus uses a free port, too. */
  cluster?: boolean
  /** Further arguments, such as `['--maxmemory-policy', 'noeviction']`. */
  args?: string[]
}

interface ClockOptions extends RedisOptions {
  /** Time stands still, and only `clock` moves it. Linux only. */
  clock: true
  /** The first time of the clock, in milliseconds since 1970; by default 2026-03-01T00:00:00Z. */
  startMs?: number
}

export interface RedisServer {
  url: string
  port: number
  pid: number
  /** A connected client, which does not reconnect. Closed in teardown. */
  client: Redis
  /** Kills the server now, as a crash would. */
  kill(): Promise<void>
}

/** Below the ports that a system gives to listeners and connections that ask for any. */
const PORTS = [20_000, 32_768] as const

/**
 * A port that was free a moment ago. Nobody gets it by chance meanwhile, and neither while the server that uses it is
 * gone for a while.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(...PORTS)
    const server = createServer().listen(port, '127.0.0.1')
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false
    )
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}

// Resolves with null when the server has ended, or another server answers on its port.
async function connect(port: number, server: Launched): Promise<Redis | null> {
  const deadline = AbortSignal.timeout(START_LIMIT_MS)
  const late = once(deadline, 'abort')
  while (!server.ended) {
    const client = new Redis(port, '127.0.0.1', { lazyConnect: true, retryStrategy: () => null })
    // Errors show in the commands; without a listener, ioredis would print them as well.
    client.on('error', () => {})
    try {
      await Promise.race([client.connect(), late])
      deadline.throwIfAborted()
      const [, pid] = /process_id:(\d+)/.exec(await client.info('server')) ?? []
      if (Number(pid) === server.pid) return client
      client.disconnect()
      return null
    } catch {
      client.disconnect()
      if (deadline.aborted) throw new Error(`redis-server did not answer within ${START_LIMIT_MS} ms`)
      await sleep(10)
    }
  }
  return null
}

/** Chooses the port of the cluster bus: by default it is 10,000 above the first port, which may be no valid port. */
async function clusterArgs(): Promise<string[]> {
  const port = await freePort()
  return ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1', '--cluster-port', `${port}`]
}

async function start(t: Teardown, folder: string, options: RedisOptions, env: Record<string, string>) {
  const port = options.port ?? (await freePort())
  const args = [
    '--port',
    `${port}`,
    '--bind',
    '127.0.0.1',
    '--dir',
    folder,
    '--save',
    '',
    '--appendonly',
    'no',
    ...(options.cluster ? await clusterArgs() : [])
  ]
  const logFile = join(folder, 'log')
  const command = ['redis-server', ...args, ...(options.args ?? [])]
  const server = await launch(command, logFile, env)
  t.teardown(server.kill)
  const client = await connect(port, server)
  if (client === null) {
    // A server whose port is taken ends by itself and says so. It may not have started yet when the other one answers.
    await until(() => server.ended, 'the end of a server that did not start')
    return { failed: true, log: readFileSync(logFile, 'utf8') } as const
  }
  t.teardown(() => client.disconnect())
  const { pid, kill } = server
  return { failed: false, server: { url: `redis://127.0.0.1:${port}`, port, pid, client, kill } } as const
}

// Between the choice of a free port and its use another process may take it.
async function startSafely(t: Teardown, folder: string, options: RedisOptions, env: Record<string, string>) {
  for (let attempt = 1; ; attempt++) {
    const result = await start(t, folder, options, env)
    if (!result.failed) return result.server
    if (options.port !== undefined || attempt === 3)
      throw new Error(`redis-server did not start:\n${result.log}`)
  }
}

/** How many scripts a Redis has run so far: those sent whole, those called by their hash, and all. */
export async function scriptCalls(client: Redis): Promise<{ sent: number; called: number; all: number }> {
  const stats = await client.info('commandstats')
  const figure = (name: string) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
  const [sent, called] = [figure('eval'), figure('evalsha')]
  return { sent, called, all: sent + called }
}

/** Every key with its bytes and its expiry. */
export async function contentsOf(client: Redis): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const key of (await client.keys('*')).sort()) {
    const [dump, expiry] = await Promise.all([client.dumpBuffer(key), client.call('PEXPIRETIME', key)])
    found[key] = `${dump?.toString('hex')} ${expiry}`
  }
  return found
}

/** Starts a Redis server of this test's own on 127.0.0.1, without persistence; stopped in teardown. */
export function startRedis(t: Teardown, options: ClockOptions): Promise<RedisServer & { clock: Clock }>
export function startRedis(t: Teardown, options?: RedisOptions): Promise<RedisServer>
export async function startRedis(
  t: Teardown,
  options: RedisOptions | ClockOptions = {}
): Promise<RedisServer> {
  const folder = folderOf(t)
  if (!('clock' in options)) return startSafely(t, folder, options, {})
  const { clock, env, close } = createClock(folder, options.startMs ?? Date.UTC(2026, 2, 1))
  t.teardown(close)
  const args = [...NO_SLEEPER, ...(options.args ?? [])]
  return Object.assign(await startSafely(t, folder, { ...options, args }, env), { clock })
}
