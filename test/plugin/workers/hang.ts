import Fastify from 'fastify'
import { Redis } from 'ioredis'
import limitPlugin from '../../../plugin/index.js'
import { sharedOptions } from '../settlement/places.js'
import { rules, url } from '../settlement/scene.js'

/** Sends a request into a handler that never ends. The handler messages the parent process. */
const [redisUrl = '', prefix = ''] = process.argv.slice(2)
const app = Fastify()
await app.register(limitPlugin, { ...sharedOptions(prefix), client: new Redis(redisUrl), rules })
app.get('/send', { config: { limit: rules.map(rule => rule.name) } }, () => {
  process.send?.('inside')
  return new Promise(() => {})
})
await app.inject(url)
