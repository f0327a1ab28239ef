import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { folderOf } from './folder.js'
import { launch } from './launcher.js'
import { freePort } from './redis.js'
import type { Teardown } from './teardown.js'
import { until } from './until.js'

export interface Sentinel {
  port: number
  /** Connected; closed in teardown. */
  client: Redis
}

/**
 * Starts a sentinel on 127.0.0.1 that decides alone; stopped in teardown.
 * @param name of the master on `port`
 * @param password of the sentinel
 * @param login password of Redis
 */
export async function startSentinel(
  t: Teardown,
  { name, port, password, login }: { name: string; port: number; password: string; login: string }
): Promise<Sentinel> {
  const folder = folderOf(t)
  const own = await freePort()
  const file = join(folder, 'sentinel.conf')
  const lines = [
    `port ${own}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `requirepass ${password}`,
    `sentinel sentinel-pass ${password}`,
    `sentinel monitor ${name} 127.0.0.1 ${port} 1`,
    `sentinel auth-pass ${name} ${login}`,
    `sentinel down-after-milliseconds ${name} 500`,
    `sentinel failover-timeout ${name} 2000`
  ]
  writeFileSync(file, lines.map(line => `${line}\n`).join(''))
  const server = await launch(['redis-server', file, '--sentinel'], join(folder, 'log'), {})
  t.teardown(server.kill)
  const client = new Redis(own, '127.0.0.1', { password, enableReadyCheck: false, retryStrategy: () => 50 })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  const knows = async () => String(await client.call('SENTINEL', 'REPLICAS', name)).includes('slave')
  await until(async () => knows().catch(() => false), 'its replica')
  return { port: own, client }
}
