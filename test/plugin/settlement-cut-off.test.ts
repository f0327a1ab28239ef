import { PassThrough } from 'node:stream'
import type { RouteHandlerMethod } from 'fastify'
import t from 'tap'
import { gate } from '../helper/gate.js'
import { listen, requestTo } from '../helper/listen.js'
import { strays } from '../helper/strays.js'
import { turns } from '../helper/turns.js'
import { until } from '../helper/until.js'
import { places } from './settlement/places.js'
import { BY_HAND, timeOutByHand } from './settlement/time-out.js'

const key = { value: 'query.id' }
const rules = [
  { name: 'send', key, limits: [{ max: 3, window: '60s' }] },
  { name: 'flight', key, lock: '30s' }
]
const limit = ['send', 'flight']

// Opened before the first test: tap would end the file while nothing runs.
const stores = await places(t)

for (const place of stores) {
  t.test(
    `${place.store}: a send after handlerTimeout, while the error handler streams its page, is kept`,
    async t => {
      const { app, used } = await place.open(t, rules)
      const page = new PassThrough()
      app.setErrorHandler((_error, _request, reply) => {
        page.write('too ')
        return reply.code(504).send(page)
      })
      const [streams, done] = [gate(), gate()]
      const timeOut = timeOutByHand(t)
      app.get('/send', { config: { limit }, handlerTimeout: BY_HAND }, async (_, reply) => {
        timeOut()
        await streams.opened
        setImmediate(done.open)
        return reply.code(202).send('sent')
      })
      await app.listen({ host: '127.0.0.1', port: 0 })
      const { port } = app.server.address() as { port: number }
      const answer = await fetch(`http://127.0.0.1:${port}/send?id=a`)
      t.equal(answer.status, 504)
      streams.open()
      await done.opened
      page.end('late')
      await answer.text().catch(() => {})
      await until(async () => (await used({ flight: 'a' }))[0] === 0, 'a free lock')
      t.same(await used({ send: 'a' }), [1], 'the send counts')
    }
  )

  for (const style of ['async', 'without a promise']) {
    t.test(`${place.store}: a send after handlerTimeout, while onError runs, is kept: ${style}`, async t => {
      const stray = strays(t)
      const { app, used } = await place.open(t, rules)
      const reporting = gate()
      const done = gate()
      app.addHook('onError', async () => {
        reporting.open()
        await done.opened
      })
      const timeOut = timeOutByHand(t)
      const send: RouteHandlerMethod =
        style === 'async'
          ? async (_, reply) => {
              timeOut()
              await reporting.opened
              setImmediate(done.open)
              return reply.code(202).send('sent')
            }
          : (_, reply) => {
              timeOut()
              void reporting.opened.then(() => {
                setImmediate(done.open)
                reply.code(202).send('sent')
              })
            }
      app.get('/send', { config: { limit }, handlerTimeout: BY_HAND }, send)
      t.equal((await app.inject('/send?id=a')).statusCode, 503)
      await until(async () => (await used({ flight: 'a' }))[0] === 0, 'a free lock')
      t.same(await used({ send: 'a' }), [1], 'the send counts')
      t.ok(stray.every(error => (error as { code?: string }).code === 'FST_ERR_SEND_INSIDE_ONERR'))
    })
  }

  t.test(
    `${place.store}: an answer to handlerTimeout that cannot be sent does not end the handler`,
    async t => {
      const { app, used } = await place.open(t, rules)
      app.setErrorHandler((_error, _request, reply) => reply.code(504).type('text/plain').send({}))
      const onward = gate()
      const timeOut = timeOutByHand(t)
      app.get('/send', { config: { limit }, handlerTimeout: BY_HAND }, (_, reply) => {
        timeOut()
        void onward.opened.then(() => reply.send('sent'))
      })
      const { body } = await app.inject('/send?id=a')
      t.match(body, /FST_ERR_REP_INVALID_PAYLOAD_TYPE/)
      t.same(await used({ flight: 'a' }), [1], 'the lock is held while the handler runs')
      onward.open()
      await until(async () => (await used({ flight: 'a' }))[0] === 0, 'a free lock')
      t.same(await used({ send: 'a' }), [1], 'the send counts')
    }
  )

  const styles: Record<string, (wait: () => Promise<void>) => RouteHandlerMethod> = {
    'async, reply.send': wait => async (_, reply) => {
      await wait()
      return reply.code(502).send('refused')
    },
    'async, a value': wait => async (_, reply) => {
      await wait()
      reply.code(502)
      return 'refused'
    },
    'without a promise': wait => (_, reply) => {
      void wait().then(() => reply.code(502).send('refused'))
    }
  }
  for (const [name, style] of Object.entries(styles)) {
    t.test(`${place.store}: an inject aborted by its signal does not end the handler: ${name}`, async t => {
      const { app, used } = await place.open(t, rules)
      app.addHook('onSend', async (_request, _reply, payload) => {
        await new Promise(setImmediate)
        return payload
      })
      const runs = gate()
      const onward = gate()
      const handler = style(() => {
        runs.open()
        return onward.opened
      })
      app.get('/send', { config: { limit } }, handler)
      const abort = new AbortController()
      const asked = app.inject({ url: '/send?id=a', signal: abort.signal })
      await runs.opened
      abort.abort()
      await t.rejects(asked, { name: 'AbortError' })
      await turns()
      t.same(await used({ flight: 'a' }), [1], 'the lock is held while the handler runs')
      onward.open()
      await until(async () => (await used({ flight: 'a' }))[0] === 0, 'a free lock')
      t.same(await used({ send: 'a' }), [0], 'the slot is refunded')
    })
  }
}

for (const place of stores) {
  t.test(`${place.store}: a wait for a reply that was cut off on its way out comes to an end`, async t => {
    const { app } = await place.open(t, rules)
    const [sent, cut, left] = [gate(), gate(), gate()]
    app.addHook('onSend', async (_request, _reply, payload) => {
      await left.opened
      return payload
    })
    let goesOn = false
    app.get('/send', { config: { limit } }, (_, reply) => {
      void (async () => {
        reply.send('sent')
        sent.open()
        await cut.opened
        await reply
        goesOn = true
      })()
    })
    const abort = new AbortController()
    const asked = app.inject({ url: '/send?id=a', signal: abort.signal })
    await sent.opened
    abort.abort()
    await t.rejects(asked, { name: 'AbortError' })
    cut.open()
    await until(() => goesOn, 'the end of the wait')
    left.open()
  })

  t.test(
    `${place.store}: a wait for a reply comes to an end when the client goes after handlerTimeout`,
    async t => {
      const { app } = await place.open(t, rules)
      const [timedOut, answers] = [gate(), gate()]
      app.setErrorHandler(async (_error, _request, reply) => {
        timedOut.open()
        await answers.opened
        return reply.code(504).send('late')
      })
      let goesOn = false
      const timeOut = timeOutByHand(t)
      app.get('/send', { config: { limit }, handlerTimeout: BY_HAND }, (_, reply) => {
        timeOut()
        void (async () => {
          await reply
          goesOn = true
        })()
      })
      const client = requestTo(await listen(app), '/send?id=a')
      client.end()
      await timedOut.opened
      client.destroy()
      await until(() => goesOn, 'the end of the wait')
      answers.open()
    }
  )

  t.test(
    `${place.store}: the lock is free when handlerTimeout destroys a reply that its handler writes and waits for`,
    async t => {
      const { app, used } = await place.open(t, rules)
      const timeOut = timeOutByHand(t)
      app.get('/send', { config: { limit }, handlerTimeout: BY_HAND }, async (_, reply) => {
        reply.raw.writeHead(202).write('mine')
        timeOut()
        await reply
      })
      await t.rejects(app.inject('/send?id=a'), { code: 'FST_ERR_HANDLER_TIMEOUT' })
      await until(async () => (await used({ flight: 'a' }))[0] === 0, 'a free lock')
      t.same(await used({ send: 'a' }), [1], 'the send counts')
    }
  )

  for (const [when, begin] of [
    ['at once', (send: () => unknown) => void send()],
    ['at once and returns the reply', (send: () => unknown) => send()],
    ['right after it has returned', (send: () => unknown) => void Promise.resolve().then(send)]
  ] as const)
    t.test(
      `${place.store}: a handler without a promise that sends ${when} has its lock released before the reply leaves`,
      async t => {
        const { app, used } = await place.open(t, rules)
        const left = gate()
        app.addHook('onSend', async (_request, _reply, payload) => {
          await left.opened
          return payload
        })
        app.get('/send', { config: { limit } }, (_, reply) => begin(() => reply.send('sent')))
        const asked = app.inject('/send?id=a')
        await until(async () => (await used({ send: 'a' }))[0] === 1, 'its decision')
        await until(async () => (await used({ flight: 'a' }))[0] === 0, 'a free lock')
        left.open()
        t.equal((await asked).body, 'sent')
      }
    )

  t.test(
    `${place.store}: when handlerTimeout is over before the handler begins, it does not run, and all is refunded`,
    async t => {
      const { app, used } = await place.open(t, rules)
      const answers = gate()
      const timedOut = gate()
      app.setErrorHandler(async (_error, _request, reply) => {
        timedOut.open()
        await answers.opened
        return reply.code(504).send('late')
      })
      let ran = false
      app.get(
        '/send',
        { config: { limit }, handlerTimeout: 20, preHandler: async () => timedOut.opened },
        async () => {
          ran = true
          return 'sent'
        }
      )
      const answer = app.inject('/send?id=a')
      await timedOut.opened
      await turns()
      // Answered after the decision, over the same connection.
      await app.limit.peek({ send: 'b' })
      await turns()
      answers.open()
      t.equal((await answer).statusCode, 504)
      t.notOk(ran)
      // The answer does not wait for the refund.
      const isFree = async () => (await used({ send: 'a', flight: 'a' })).every(count => count === 0)
      await until(isFree, 'a refund')
    }
  )
}
