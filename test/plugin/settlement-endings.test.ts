import type { RouteHandlerMethod } from 'fastify'
import t, { type Test } from 'tap'
import { type Ending, endings } from './settlement/endings.js'
import { type Place, places } from './settlement/places.js'
import { rules, Scene, url } from './settlement/scene.js'

// If this machine is so slow that the time-out came before the handler, the scene is run again with a longer one.
async function play(t: Test, place: Place, stage: Ending['stage'], method: Ending['method']) {
  for (let handlerTimeout = 20; ; handlerTimeout *= 10) {
    const scene = new Scene(place, await place.open(t, rules), handlerTimeout)
    await stage(scene)
    const reply = await scene.app.inject({ method: method ?? 'GET', url })
    if (scene.decision !== undefined || !scene.timed) return { scene, reply }
  }
}

// Opened before the first test: tap would end the file while nothing runs.
const stores = await places(t)

/** Each ending of a handler: what the client gets, what is counted, and the lock. */
for (const place of stores) {
  t.test(place.store, async t => {
    for (const { name, stage, method, status, send, wrong, late } of endings) {
      t.test(name, async t => {
        const { scene, reply } = await play(t, place, stage, method)
        t.equal(reply.statusCode, status, 'the client gets its answer')
        if (late) {
          t.same(await scene.counts(), { guard: 1, ...late }, 'counted while the handler goes on')
          scene.goOn()
          await scene.free()
        }
        t.same(await scene.counts(), { guard: 1, send, wrong }, 'counted')
        const looks = await Promise.all(scene.looks)
        t.ok(looks.every(Boolean), 'the lock was held while the handler ran')
        t.equal(looks.length > 0, scene.decision !== undefined)
        await scene.free()
        const again = await scene.settleAgain()
        t.same(again.now, { guard: 1, send, wrong }, 'a second settlement changes nothing')
        t.same(again.later, { guard: 1, send: 1, wrong: 1 }, 'nor does a settlement on the next day')
      })
    }
  })
}

const twice: Record<string, RouteHandlerMethod> = {
  async: async (_, reply) => {
    reply.code(502).send('first')
    return 'second'
  },
  'no promise': (_, reply) => {
    reply.code(502).send('first')
    return 'second' as never
  }
}

for (const place of stores) {
  for (const [style, handler] of Object.entries(twice))
    t.test(
      `${place.store}: what a handler has sent is the answer and settles, whatever it returns: ${style}`,
      async t => {
        const { app, used } = await place.open(t, rules)
        app.get('/send', { config: { limit: ['send'] } }, handler)
        const { statusCode, body } = await app.inject(url)
        t.same([statusCode, body], [502, 'first'])
        t.same(await used({ send: 'somebody' }), [0, 0, 0])
      }
    )

  t.test(`${place.store}: an error handler may hijack a reply that fails on its way out`, async t => {
    const { app } = await place.open(t, rules)
    app.addHook('onSend', async () => {
      throw new Error('broken')
    })
    app.setErrorHandler(async (_error, _request, reply) => {
      reply.hijack()
      setImmediate(() => reply.raw.end('mine'))
    })
    app.get('/send', { config: { limit: ['send'] } }, async (_, reply) => {
      return reply.code(502).send('refused')
    })
    t.equal((await app.inject(url)).body, 'mine')
  })
}
