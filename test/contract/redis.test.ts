import { Redis } from 'ioredis'
import { Redis as OlderRedis } from 'ioredis-5'
import t from 'tap'
import type { RedisClient } from '../../plugin/index.js'
import { RedisStore } from '../../plugin/store/redis.js'
import { startRedis } from '../helper/redis.js'
import { storeContract } from './store.js'
import { Time } from './time.js'

const { url, client, clock } = await startRedis(t, { clock: true })

/** The client of @fastify/redis 9, and that of 7 and 8. */
const clients: Record<string, RedisClient & Pick<Redis, 'disconnect'>> = {
  'ioredis 6': new Redis(url),
  'ioredis 5': new OlderRedis(url)
}

for (const [name, own] of Object.entries(clients)) {
  t.teardown(() => own.disconnect())
  await storeContract(t, `redis, ${name}`, async (_, start) => {
    await client.flushall()
    return { store: new RedisStore(own, 'test:'), time: new Time(start, clock) }
  })
}
