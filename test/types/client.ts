// Type tests: the clients that are accepted as `client`.
import Fastify from 'fastify'
import { Cluster, Redis } from 'ioredis'
import { limitPlugin, type RedisClient, type SendLimitOptions } from '../../plugin/index.js'

const secret = 'sixteen characters'
const redis = new Redis({ lazyConnect: true })
const cluster = new Cluster([{ host: '127.0.0.1', port: 7000 }], { lazyConnect: true })

export const clients: RedisClient[] = [redis, cluster]
export const options: SendLimitOptions[] = [
  { client: redis, secret },
  { client: cluster, secret },
  { client: Math.random() < 0.5 ? redis : cluster, secret }
]
const app = Fastify()
await app.register(limitPlugin, { client: redis, secret })
await app.register(limitPlugin, { client: cluster, secret })
await app.register(limitPlugin, {
  store: 'redis',
  client: redis,
  secret,
  prefix: 'a:',
  onStoreError: 'deny',
  timeout: '250ms'
})
// @ts-expect-error a URL is no client
await app.register(limitPlugin, { client: 'redis://127.0.0.1', secret })
// @ts-expect-error an empty object is no client
await app.register(limitPlugin, { client: {}, secret })
// @ts-expect-error a pipeline is no client
await app.register(limitPlugin, { client: redis.pipeline(), secret })
