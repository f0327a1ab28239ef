import type { RedisServer } from './redis.js'
import { until } from './until.js'

/** Waits for the link of a replica to its master: from then on it has loaded what the master had. */
export function linked({ client }: RedisServer, patienceMs?: number): Promise<void> {
  const isUp = async () => (await client.info('replication')).includes('master_link_status:up')
  return until(isUp, 'the link of a replica', patienceMs)
}
