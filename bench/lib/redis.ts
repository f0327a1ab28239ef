import { Redis } from 'ioredis'
import { scriptCalls, startRedis } from '../../test/helper/redis.js'
import type { Closing } from './closing.js'
import { pin } from './cores.js'

export interface BenchRedis {
  url: string
  /** The client of the bench itself. */
  client: Redis
  /** Opens a client for a subject. */
  connect(options?: { enableAutoPipelining?: boolean }): Redis
  /** Processor time of the server so far, in µs. */
  cpu(): Promise<number>
  /** How many scripts were called so far. */
  scripts(): Promise<number>
  /** The bytes that Redis uses now. */
  memory(): Promise<number>
  /** Fills an empty Redis so far that its tables have room for a million keys more, all in place. */
  grow(): Promise<void>
}

/** A Redis of the bench's own. */
export async function openRedis(closing: Closing, core: number): Promise<BenchRedis> {
  const { url, client, pid } = await startRedis(closing)
  pin(pid, core)
  return {
    url,
    client,
    connect: (options = {}) => connect(closing, url, options),
    async cpu() {
      const info = await client.info('cpu')
      return (figure(info, 'used_cpu_user') + figure(info, 'used_cpu_sys')) * 1e6
    },
    scripts: async () => (await scriptCalls(client)).all,
    memory: async () => figure(await client.info('memory'), 'used_memory'),
    grow: () => grow(client)
  }
}

/** One more than fill a table, so it doubles. */
const GROWN = 2 ** 20 + 1
const COMMANDS = ["'SET', key, '', 'PX', 3600000", "'GET', key"]

/** Writes keys, then reads each: while a table grows, each look-up moves some of what was in the old one. */
async function grow(client: Redis): Promise<void> {
  for (const command of COMMANDS) {
    const script = `
      for i = ARGV[1], ARGV[2] do
        local key = 'filled with a key as long as others:' .. i
        redis.call(${command})
      end`
    for (let i = 1; i <= GROWN; i += 10_000) await client.eval(script, 0, i, Math.min(i + 9_999, GROWN))
  }
}

export function connect(
  closing: Closing,
  url: string,
  options: { enableAutoPipelining?: boolean } = {}
): Redis {
  const client = new Redis(url, options)
  closing.teardown(() => client.disconnect())
  return client
}

function figure(info: string, name: string): number {
  return Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1])
}
