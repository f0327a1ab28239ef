import t from 'tap'
import { RedisStore } from '../../plugin/store/redis.js'
import { startRedis } from '../helper/redis.js'
import { storeContract } from './store.js'
import { Time } from './time.js'

const { client, clock } = await startRedis(t, { clock: true })

await storeContract(t, 'redis', async (_, start) => {
  await client.flushall()
  return { store: new RedisStore(client, 'test:'), time: new Time(start, clock) }
})
