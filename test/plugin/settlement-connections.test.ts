import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { connect, constants, type Http2ServerRequest, type ServerHttp2Session } from 'node:http2'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import type { FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import limitPlugin, { type Rule } from '../../plugin/index.js'
import { appOf } from '../helper/face.js'
import { listen, requestTo } from '../helper/listen.js'
import { moduleOf } from '../helper/module.js'
import { until } from '../helper/until.js'
import { gone, type Place, places, redis, sharedOptions } from './settlement/places.js'
import { rules, Scene, url } from './settlement/scene.js'

const body = { ok: true }

async function call(scene: Scene): Promise<ClientRequest> {
  return requestTo(await listen(scene.app), url)
}

async function settled(t: Test, scene: Scene, counts: { send: number; wrong: number }): Promise<void> {
  await scene.free()
  t.same(await scene.counts(), { guard: 1, ...counts }, 'counted')
  t.ok((await Promise.all(scene.looks)).every(Boolean), 'the lock was held while the handler ran')
  const again = await scene.settleAgain()
  t.same(again.now, { guard: 1, ...counts }, 'a second settlement changes nothing')
  t.same(again.later, { guard: 1, send: 1, wrong: 1 }, 'nor does a settlement on the next day')
}

const kept = { send: 1, wrong: 0 }
const given = { send: 0, wrong: 0 }

/** Handlers that wait until the client is gone, and then end; with what is counted. */
const deserted: [string, { send: number; wrong: number }, (scene: Scene) => RouteHandlerMethod][] = [
  [
    'async, 202',
    kept,
    scene => async (request, reply) => {
      await gone(request)
      scene.look()
      reply.code(202)
      return body
    }
  ],
  [
    'async, reply.send of 202',
    kept,
    scene => async (request, reply) => {
      await gone(request)
      scene.look()
      return reply.code(202).send(body)
    }
  ],
  [
    'async, 502',
    given,
    scene => async (request, reply) => {
      await gone(request)
      scene.look()
      return reply.code(502).send(body)
    }
  ],
  [
    'async, a throw',
    given,
    scene => async request => {
      await gone(request)
      scene.look()
      throw new Error('broken')
    }
  ],
  [
    'callback, 202',
    kept,
    scene => (request, reply) => {
      void gone(request).then(() => {
        scene.look()
        reply.code(202).send(body)
      })
    }
  ],
  [
    'callback, 502',
    given,
    scene => (request, reply) => {
      void gone(request).then(() => {
        scene.look()
        reply.code(502).send(body)
      })
    }
  ],
  [
    'the reply returned, 202',
    kept,
    scene => async (request, reply) => {
      void gone(request).then(() => {
        scene.look()
        reply.code(202).send(body)
      })
      return reply
    }
  ],
  [
    'callback, written to by itself',
    { send: 1, wrong: 1 },
    () => (_, reply) => {
      reply.raw.writeHead(202).write('mine')
    }
  ],
  [
    'the reply returned, written to by itself',
    kept,
    () => async (_, reply) => {
      reply.raw.writeHead(202).write('mine')
      return reply
    }
  ],
  [
    'the reply returned, 502',
    given,
    scene => async (request, reply) => {
      void gone(request).then(() => {
        scene.look()
        reply.code(502).send(body)
      })
      return reply
    }
  ]
]

async function vanish(t: Test, place: Place, handler: (scene: Scene) => RouteHandlerMethod): Promise<Scene> {
  const scene = new Scene(place, await place.open(t, rules), 0)
  const run = handler(scene)
  const running = new Promise<void>(resolve => {
    scene.route(function (request, reply) {
      resolve()
      return run.call(this, request, reply)
    })
  })
  const client = await call(scene)
  client.end()
  await running
  client.destroy()
  return scene
}

for (const place of await places(t)) {
  for (const [name, counts, handler] of deserted) {
    t.test(
      `${place.store}: when the client is gone before the send, the handler's end settles: ${name}`,
      async t => {
        const scene = await vanish(t, place, handler)
        await settled(t, scene, counts)
      }
    )
  }

  t.test(
    `${place.store}: a send is kept when the client is gone after it, while the handler goes on`,
    async t => {
      const scene = new Scene(place, await place.open(t, rules), 0)
      scene.route(async (request, reply) => {
        reply.code(202).send(body)
        await gone(request)
        scene.look()
      })
      const client = await call(scene)
      client.end()
      await once(client, 'response')
      client.destroy()
      await settled(t, scene, kept)
    }
  )

  t.test(`${place.store}: a send is kept when the client is gone in the middle of a stream`, async t => {
    const scene = new Scene(place, await place.open(t, rules), 0)
    const endless = new Readable({
      read() {
        this.push('more ')
      }
    })
    scene.route(async (_, reply) => reply.send(endless))
    const client = await call(scene)
    client.end()
    const [response] = (await once(client, 'response')) as [IncomingMessage]
    await once(response, 'data')
    client.destroy()
    await settled(t, scene, kept)
  })

  t.test(
    `${place.store}: a hijacked reply of an async handler is unclear, so everything is kept`,
    async t => {
      const scene = new Scene(place, await place.open(t, rules), 0)
      scene.route(async (_, reply) => {
        reply.hijack()
        reply.raw.end('mine')
        await once(reply.raw, 'close')
        scene.look()
      })
      const client = await call(scene)
      client.end()
      await once(client, 'response')
      await settled(t, scene, { send: 1, wrong: 1 })
    }
  )

  t.test(
    `${place.store}: the slots are refunded when an async handler hijacks its reply and throws`,
    async t => {
      const scene = new Scene(place, await place.open(t, rules), 0)
      scene.route(async (_, reply) => {
        reply.hijack()
        reply.raw.writeHead(502).end('mine')
        await once(reply.raw, 'close')
        scene.look()
        throw new Error('broken')
      })
      const client = await call(scene)
      client.end()
      await once(client, 'response')
      await settled(t, scene, given)
    }
  )

  t.test(
    `${place.store}: the slots are refunded when a stream fails that the handler pipes to reply.raw`,
    async t => {
      const scene = new Scene(place, await place.open(t, rules), 0)
      scene.route(async (_, { raw }) => {
        const failing = new Readable({ read: () => failing.destroy(new Error('broken')) })
        await pipeline(failing, raw)
      })
      const client = await call(scene)
      client.end()
      await once(client, 'error')
      await settled(t, scene, given)
    }
  )

  t.test(`${place.store}: a hijack after the reply was sent changes nothing`, async t => {
    const scene = new Scene(place, await place.open(t, rules), 0)
    scene.route(async (_, reply) => {
      scene.look()
      reply.code(502).send('refused')
      reply.hijack()
    })
    const client = await call(scene)
    client.end()
    const [response] = await once(client, 'response')
    t.equal(response.statusCode, 502)
    await settled(t, scene, given)
  })

  for (const [when, begin] of [
    ['before', (hijack: () => void) => hijack()],
    ['after', setImmediate]
  ] as const) {
    t.test(
      `${place.store}: everything is kept when a reply is hijacked ${when} its handler has returned it`,
      async t => {
        const scene = new Scene(place, await place.open(t, rules), 0)
        scene.route(async (_, reply) => {
          begin(() => {
            scene.look()
            reply.hijack()
            reply.raw.end('mine')
          })
          return reply
        })
        const client = await call(scene)
        client.end()
        await once(client, 'response')
        await settled(t, scene, { send: 1, wrong: 1 })
      }
    )
  }

  t.test(
    `${place.store}: a wait for a reply that a handler without a promise hijacks comes to an end`,
    async t => {
      const scene = new Scene(place, await place.open(t, rules), 0)
      let waits = true
      scene.route((_, reply) => {
        scene.look()
        reply.hijack()
        reply.then(
          () => (waits = false),
          () => {}
        )
        reply.raw.end('mine')
      })
      const client = await call(scene)
      client.end()
      await once(client, 'response')
      await settled(t, scene, { send: 1, wrong: 1 })
      t.notOk(waits)
    }
  )

  t.test(
    `${place.store}: a hijacked reply of a handler without a promise holds the lock until its connection ends`,
    async t => {
      const scene = new Scene(place, await place.open(t, rules), 0)
      scene.route((_, reply) => {
        reply.hijack()
        reply.raw.write('mine')
        void scene.onward.then(() => {
          scene.look()
          reply.raw.end()
        })
      })
      const client = await call(scene)
      client.end()
      const [response] = (await once(client, 'response')) as [IncomingMessage]
      await once(response, 'data')
      scene.goOn()
      await settled(t, scene, { send: 1, wrong: 1 })
    }
  )

  for (const options of [{}, { handlerTimeout: 60_000 }])
    t.test(
      `${place.store}: the lock is free when the client was gone before a handler without a promise hijacks`,
      async t => {
        let asked = (_: FastifyRequest) => {}
        const asking = new Promise<FastifyRequest>(resolve => {
          asked = resolve
        })
        const key = async (request: FastifyRequest) => {
          asked(request)
          await gone(request)
          return 'somebody'
        }
        const { app, used } = await place.open(t, [{ name: 'flight', key, lock: '30s' }])
        const runs = new Promise<void>(resolve => {
          app.get('/send', { config: { limit: 'flight' }, ...options }, (_, reply) => {
            reply.hijack()
            resolve()
          })
        })
        const port = await listen(app)
        const client = requestTo(port, url)
        client.end()
        await asking
        client.destroy()
        await runs
        await until(async () => (await used({ flight: 'somebody' }))[0] === 0, 'a free lock')
      }
    )

  t.test(
    `${place.store}: the lock is free when the HTTP/2 stream was closed before such a handler hijacks`,
    async t => {
      let reset = () => {}
      const key = async ({ raw }: FastifyRequest) => {
        const { stream } = raw as unknown as Http2ServerRequest
        reset()
        if (!stream.closed) await once(stream, 'close')
        return 'somebody'
      }
      const fastify = { http2: true } as object
      const { app, used } = await place.open(t, [{ name: 'flight', key, lock: '30s' }], { fastify })
      const runs = new Promise<void>(resolve => {
        app.get('/send', { config: { limit: 'flight' } }, (_, reply) => {
          reply.hijack()
          resolve()
        })
      })
      const session = connect(await app.listen({ host: '127.0.0.1', port: 0 }))
      t.teardown(() => session.destroy())
      const stream = session.request({ ':path': url }).on('error', () => {})
      reset = () => stream.close(constants.NGHTTP2_CANCEL)
      await runs
      await until(async () => (await used({ flight: 'somebody' }))[0] === 0, 'a free lock')
    }
  )

  for (const http2 of [false, true])
    t.test(
      `${place.store}: the lock is free once a handler writes to a reply whose client is gone: ${http2 ? 'HTTP/2' : 'HTTP/1.1'}`,
      async t => {
        let leave = () => {}
        const left = async (request: FastifyRequest) => {
          leave()
          if (!http2) return gone(request)
          const { stream } = request.raw as unknown as Http2ServerRequest
          if (!stream.closed) await once(stream, 'close')
        }
        const key = async (request: FastifyRequest) => {
          const { id, early } = request.query as { id: string; early?: string }
          if (early) await left(request)
          return id
        }
        const fastify = { http2 } as object
        const { app, used } = await place.open(t, [{ name: 'flight', key, lock: '30s' }], { fastify })
        const writes: ((reply: FastifyReply) => void)[] = [
          ({ raw }) => raw.writeHead(200).flushHeaders(),
          ({ raw }) => void raw.write('mine'),
          ({ raw }) => void raw.end('mine'),
          reply => {
            reply.hijack()
            reply.raw.end('mine')
          }
        ]
        const seen: boolean[] = []
        const routes = writes.flatMap((write, i) => {
          const begin = (request: FastifyRequest, reply: FastifyReply) => {
            const { id, early } = request.query as { id: string; early?: string }
            if (early) {
              seen.push(true)
              write(reply)
            } else
              void left(request).then(async () => {
                seen.push((await used({ flight: id }))[0] === 1)
                write(reply)
              })
          }
          const handlers: RouteHandlerMethod[] = [
            (request, reply) => begin(request, reply),
            (request, reply) => {
              begin(request, reply)
              return reply
            },
            async (request, reply) => {
              begin(request, reply)
              return reply
            },
            async (request, reply) => {
              const { id } = request.query as { id: string }
              await left(request)
              seen.push((await used({ flight: id }))[0] === 1)
              write(reply)
              return reply
            }
          ]
          return handlers.flatMap((handler, j) => {
            app.get(`/${i}/${j}`, { config: { limit: 'flight' } }, handler)
            return [`/${i}/${j}?id=${i}.${j}`, `/${i}/${j}?id=${i}.${j}.early&early=1`]
          })
        })
        const port = await listen(app)
        for (const [i, path] of routes.entries()) {
          if (http2) {
            const session = connect(`http://127.0.0.1:${port}`)
            t.teardown(() => session.destroy())
            const stream = session.request({ ':path': path }).on('error', () => {})
            leave = () => stream.close(constants.NGHTTP2_CANCEL)
          } else {
            const client = requestTo(port, path)
            client.end()
            leave = () => client.destroy()
          }
          await until(() => seen.length === i + 1, 'its handler')
          const id = /id=([^&]+)/.exec(path)?.[1] as string
          await until(async () => (await used({ flight: id }))[0] === 0, `a free lock: ${path}`)
        }
        t.ok(seen.every(Boolean), 'the lock was held while the handler ran')
      }
    )

  t.test(
    `${place.store}: when the HTTP/2 stream is reset before the send, the lock is held until the handler ends`,
    async t => {
      const fastify = { http2: true } as object
      const flight: Rule = { name: 'flight', key: { value: 'query.id' }, lock: '30s' }
      const { app, used } = await place.open(t, [flight], { fastify })
      let reset = () => {}
      const gone = async ({ raw }: FastifyRequest) => {
        const { stream } = raw as unknown as Http2ServerRequest
        reset()
        if (!stream.closed) await once(stream, 'close')
      }
      const endings: RouteHandlerMethod[] = [
        async (_, reply) => reply.code(202).send(body),
        async (_, reply) => reply.code(502).send(body),
        async (_, reply) => {
          reply.code(202).send(body)
          await reply
        },
        async () => body
      ]
      const seen: boolean[] = []
      for (const [i, ending] of endings.entries())
        app.get(`/${i}`, { config: { limit: 'flight' } }, async function (request, reply) {
          await gone(request)
          seen.push((await used({ flight: `${i}` }))[0] === 1)
          return ending.call(this, request, reply)
        })
      const session = connect(await app.listen({ host: '127.0.0.1', port: 0 }))
      t.teardown(() => session.destroy())
      for (const i of endings.keys()) {
        const stream = session.request({ ':path': `/${i}?id=${i}` }).on('error', () => {})
        reset = () => stream.close(constants.NGHTTP2_CANCEL)
        await until(() => seen.length === i + 1, 'its handler')
        await until(async () => (await used({ flight: `${i}` }))[0] === 0, 'a free lock')
      }
      t.same(seen, [true, true, true, true], 'the lock was held while the handler ran')
    }
  )

  t.test(
    `${place.store}: the lock is free after an HTTP/2 stream whose answer was not read is reset with NO_ERROR`,
    async t => {
      const fastify = { http2: true } as object
      const flight: Rule = { name: 'flight', key: { value: 'query.id' }, lock: '30s' }
      const { app, used } = await place.open(t, [flight], { fastify })
      const write = ({ raw }: FastifyReply) => {
        raw.writeHead(200)
        raw.write('data: 1\n\n')
      }
      const endings: RouteHandlerMethod[] = [
        (_, reply) => write(reply),
        async (_, reply) => {
          write(reply)
          return reply
        },
        (_, { raw }) => void raw.writeHead(200).end('data'),
        (_, reply) => {
          reply.hijack()
          reply.raw.writeHead(200).end('data')
        },
        async (_, reply) => {
          reply.send(Readable.from(['a', 'b']))
          await reply
        },
        // Fastify writes such a long text to HTTP/2 piece by piece.
        async (_, reply) => {
          reply.send('x'.repeat(300_000))
          await reply
        }
      ]
      // Nobody reads a body.
      app.addContentTypeParser('*', (_request, _payload, done) => done(null))
      const method = ['GET', 'POST']
      for (const [i, handler] of endings.entries())
        app.route({ method, url: `/${i}`, config: { limit: 'flight' }, handler })
      // The client reads nothing, so what is written waits.
      const settings = { initialWindowSize: 0 }
      const session = connect(await app.listen({ host: '127.0.0.1', port: 0 }), { settings })
      const [served] = (await once(app.server, 'session')) as [ServerHttp2Session]
      const asks: [method: string, i: number][] = [...endings.keys()].map(i => ['GET', i])
      // The first two endings leave something to write.
      asks.push(['POST', 0], ['POST', 1])
      for (const [method, i] of asks) {
        const headers = { ':method': method, ':path': `/${i}?id=${i}`, 'content-type': 'text/x' }
        const stream = session.request(headers).on('error', () => {})
        if (method === 'POST') stream.write('unread')
        await once(stream, 'response')
        t.same(await used({ flight: `${i}` }), [1], 'the lock is held')
        stream.close(constants.NGHTTP2_NO_ERROR)
        await until(async () => (await used({ flight: `${i}` }))[0] === 0, 'a free lock')
      }
      // The server would wait for the session when it closes, since Node does not count such a stream as closed.
      session.destroy()
      served.destroy()
    }
  )

  t.test(`${place.store}: a handler without a promise reads its HTTP/2 body when it likes`, async t => {
    const fastify = { http2: true } as object
    const { app } = await place.open(t, rules, { fastify })
    app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
    app.post('/send', { config: { limit: 'flight' } }, ({ raw }, reply) => {
      setTimeout(() => void text(raw).then(body => reply.send(body)), 5)
    })
    const session = connect(await app.listen({ host: '127.0.0.1', port: 0 }))
    t.teardown(() => session.destroy())
    const stream = session.request({ ':method': 'POST', ':path': url, 'content-type': 'text/x' })
    stream.end('whole')
    t.equal(await text(stream), 'whole')
  })

  t.test(`${place.store}: what waits for a reply is called once when the HTTP/2 stream is reset`, async t => {
    const fastify = { http2: true } as object
    const { app, used } = await place.open(t, rules, { fastify })
    let calls = 0
    app.get('/send', { config: { limit: 'flight' } }, (_, reply) => {
      const call = () => void calls++
      reply.then(call, call)
      reply.raw.writeHead(200)
      reply.raw.write('data: 1\n\n')
    })
    const session = connect(await app.listen({ host: '127.0.0.1', port: 0 }))
    t.teardown(() => session.destroy())
    const stream = session.request({ ':path': url }).on('error', () => {})
    await once(stream, 'response')
    stream.close(constants.NGHTTP2_CANCEL)
    await until(async () => (await used({ flight: 'somebody' }))[0] === 0, 'a free lock')
    await new Promise(setImmediate)
    t.equal(calls, 1)
  })

  t.test(`${place.store}: after a refund the client's next try finds the slot free`, async t => {
    const opened = await place.open(t, [
      {
        name: 'send',
        key: { value: 'query.id' },
        limits: [
          { max: 1, window: '60s' },
          { max: 1, per: 'day' }
        ]
      }
    ])
    let tries = 0
    opened.app.get('/send', { config: { limit: 'send' } }, async (_, reply) =>
      reply.code(++tries < 25 ? 502 : 202).send(body)
    )
    const address = await opened.app.listen({ host: '127.0.0.1', port: 0 })
    for (let i = 1; i < 25; i++) t.equal((await fetch(address + url)).status, 502)
    t.equal((await fetch(address + url)).status, 202)
    t.equal((await fetch(address + url)).status, 429)
    t.equal(tries, 25)
  })
}

t.test(
  'redis: when a process is killed in its handler, slots stay counted and the lock ends by its time',
  async t => {
    const place = await redis(t)
    const prefix = 'killed'
    const worker = fork(moduleOf('test/plugin/workers/hang.ts'), [place.url, prefix])
    t.teardown(() => worker.kill('SIGKILL'))
    await once(worker, 'message')
    worker.kill('SIGKILL')
    await once(worker, 'exit')

    const client = new Redis(place.url)
    const app = appOf(t, {}, client)
    await app.register(limitPlugin, { ...sharedOptions(prefix), client, rules })
    const counted = async () => {
      const { rules } = await app.limit.peek({ send: 'somebody', wrong: 'somebody', flight: 'somebody' })
      return rules.map(rule => rule.limits.map(({ max, remaining }) => max - remaining))
    }
    await until(async () => (await counted())[0]?.[0] === 1, 'the slot of the process that was killed')
    t.same(await counted(), [[1, 1, 1], [1], [1]], 'its slots stay counted, and its lock is still held')
    place.advance(29_999)
    t.same(await counted(), [[1, 1, 1], [1], [1]])
    const refused = await app.limit.reserve({ flight: 'somebody' })
    t.match(refused, { allowed: false, refusal: 'in-flight', retryAfterMs: 1 })
    place.advance(1)
    t.same(await counted(), [[1, 1, 1], [1], [0]], 'the lock has ended')
    const next = await app.limit.reserve({ flight: 'somebody', send: 'somebody' })
    t.ok(next.allowed)
    next.keep()
    next.end()
  }
)

/** What @fastify/express 4 does to each response. */
function hideHeadersSent({ raw }: FastifyReply): void {
  Object.defineProperty(raw, 'headersSent', { get: () => false, configurable: true })
}

t.test('with @fastify/express too, a lock is free once the connection of a raw reply ends', async t => {
  const app = appOf(t, { forceCloseConnections: true })
  app.addHook('onRequest', async (_request, reply) => hideHeadersSent(reply))
  await app.register(limitPlugin, { rules: [{ name: 'lock', key: 'ip', lock: '30s' }] })
  const write = ({ raw }: FastifyReply) => {
    raw.writeHead(200)
    raw.write('data: 1\n\n')
  }
  const config = { limit: 'lock' }
  app.get('/callback', { config }, (_request, reply) => write(reply))
  app.get('/promise', { config }, async (_request, reply) => {
    write(reply)
    return reply
  })
  const port = await listen(app)
  const isFree = async () => (await app.limit.peek({ lock: '127.0.0.1' })).allowed
  for (const path of ['/callback', '/promise']) {
    const call = requestTo(port, path)
    call.end()
    const [response] = await once(call, 'response')
    response.on('error', () => {})
    t.notOk(await isFree(), `${path}: the lock is held`)
    call.destroy()
    await until(isFree, `${path}: the release of the lock`)
  }
})
