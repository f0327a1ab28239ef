import { subscribe } from 'node:diagnostics_channel'
import { runInNewContext } from 'node:vm'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import { moduleOf } from '../helper/module.js'

// As Jest does for each file of tests.
const load = (time: number): Promise<typeof import('../../plugin/early-routes.js')> =>
  import(`${moduleOf('plugin/early-routes.ts').href}?time=${time}`)

let hooks = 0
subscribe('fastify.initialization', message => {
  const { fastify } = message as { fastify: FastifyInstance }
  const { addHook } = fastify
  fastify.addHook = (...hook: unknown[]) => {
    hooks++
    return Reflect.apply(addHook, fastify, hook)
  }
})

t.test('however often the plugin is loaded, it listens for new apps once, and sees all of them', async t => {
  const first = await load(0)
  const before = Fastify() as unknown as FastifyInstance
  let last = first
  for (let time = 1; time < 20; time++) last = await load(time)
  t.ok(last.isWatched(before), 'an app made before it was loaded again')
  hooks = 0
  const app = Fastify() as unknown as FastifyInstance
  t.equal(hooks, 1)
  t.ok(first.isWatched(app) && last.isWatched(app))
})

t.test('a JSON Schema written by Zod in another realm is taken for JSON Schema', async t => {
  const { isForeign } = await import('../../plugin/foreign-schema.js')
  const written = runInNewContext(
    `Object.defineProperty({ type: 'object' }, '~standard', { value: {}, enumerable: false })`
  )
  t.notOk(isForeign({ body: written }))
  t.ok(isForeign({ body: runInNewContext(`new (class Zod { '~standard' = {} })()`) }))
})

t.test(
  'a schema that shows itself as a Standard Schema is no JSON Schema, plain as its object may be',
  async t => {
    const { isForeign } = await import('../../plugin/foreign-schema.js')
    // As those of Valibot.
    t.ok(isForeign({ body: { kind: 'schema', type: 'object', '~standard': { version: 1 } } }))
    const bare = Object.assign(Object.create(null), { type: 'object' })
    t.notOk(isForeign({ body: Object.defineProperty(bare, '~standard', { value: {} }) }))
  }
)
