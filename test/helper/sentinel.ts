import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { folderOf } from './folder.js'
import { launch } from './launcher.js'
import { freePort } from './redis.js'
import type { Teardown } from './teardown.js'
import { until } from './until.js'

/**
 * Starts a sentinel on 127.0.0.1; stopped in teardown.
 * @param file its settings, without a port
 * @param password as `requirepass` of the file has it
 * @param replicas how many replicas of its master it has to know before it is ready
 * @returns its port
 */
export async function startSentinel(
  t: Teardown,
  { file, password, replicas }: { file: string; password: string; replicas: number }
): Promise<number> {
  const folder = folderOf(t)
  const port = await freePort()
  const path = join(folder, 'sentinel.conf')
  writeFileSync(path, `port ${port}\nbind 127.0.0.1\ndir ${folder}\n${file}`)
  const server = await launch(['redis-server', path, '--sentinel'], join(folder, 'log'), {})
  t.teardown(server.kill)
  const client = new Redis(port, '127.0.0.1', { password, enableReadyCheck: false, retryStrategy: () => 50 })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  const isReady = async () => {
    const [master] = (await client.call('SENTINEL', 'MASTERS')) as string[][]
    return master !== undefined && Number(master[master.indexOf('num-slaves') + 1]) === replicas
  }
  await until(async () => isReady().catch(() => false), 'its replicas', 20_000)
  return port
}
