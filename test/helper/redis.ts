import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { type Clock, createClock } from './clock.js'
import { folderOf } from './folder.js'
import { type Launched, launch } from './launcher.js'
import type { Teardown } from './teardown.js'
import { until } from './until.js'

export type { Clock }

const START_LIMIT_MS = 20_000

/** A thread of Redis's allocator sleeps until an instant of the clock, which to the kernel is long over: it would never rest. */
const NO_SLEEPER = ['--jemalloc-bg-thread', 'no']

interface RedisOptions {
  /** Fixed port, to come back where a server was; by default a free one. */
  port?: number
  /** A node of a cluster, which has met no other; the port of the nodes' own talk is a free one, too. */
  cluster?: boolean
  /** More of the command line, such as `['--maxmemory-policy', 'noeviction']`. */
  args?: string[]
}

interface ClockOptions extends RedisOptions {
  /** Time stands still and is moved by `clock` alone. Linux only. */
  clock: true
  /** What the clock shows first, milliseconds since 1970; by default 2026-03-01T00:00:00Z. */
  startMs?: number
}

export interface RedisServer {
  url: string
  port: number
  pid: number
  /** Connected; does not reconnect. Closed in teardown. */
  client: Redis
  /** Kills it now, as a crash would. */
  kill(): Promise<void>
}

/** A port that nobody had a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

// Resolves with null when the server ended or what answers on its port is somebody else's.
async function connect(port: number, server: Launched): Promise<Redis | null> {
  const deadline = AbortSignal.timeout(START_LIMIT_MS)
  const late = once(deadline, 'abort')
  while (!server.ended) {
    const client = new Redis(port, '127.0.0.1', { lazyConnect: true, retryStrategy: () => null })
    // What breaks shows in the commands; without a listener ioredis prints it as well.
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

/** By default the nodes talk on a port that is 10,000 more than the first, which may be none. */
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
    // Whose port somebody else has ends by itself, and says so; it may not have begun when the other one answers.
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

/** How many scripts a Redis has run so far: sent whole, called by their hash, and all. */
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

/** Starts a Redis server of this test's own on 127.0.0.1, without persistence; gone after its teardown. */
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
