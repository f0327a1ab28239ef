import { once } from 'node:events'
import { connect as connect2, constants } from 'node:http2'
import { connect } from 'node:net'
import type { FastifyRequest, FastifyServerOptions, preHandlerHookHandler } from 'fastify'
import t, { type Test } from 'tap'
import type { RouteLimit } from '../../plugin/index.js'
import { open } from '../helper/face.js'
import { listen } from '../helper/listen.js'

const limits = [{ max: 1, window: '1h' }]
const rules: Record<string, RouteLimit> = {
  'an address': { name: 'a', key: 'ip', limits },
  'a path': { name: 'a', key: { ip: 'request.ip' }, limits },
  optional: { name: 'a', key: 'ip', optional: true, limits },
  'an address and more': { name: 'a', key: ['ip', { value: 'headers.x-id' }], limits },
  'a content': { name: 'a', key: { digest: ['ip', 'headers.x-id'] }, limits },
  'an address behind a filter': ['open', { name: 'a', key: 'ip', limits }],
  blocked: { name: 'a', key: 'ip', block: ['127.0.0.1'], limits },
  'what a hook has read': { name: 'a', key: { ip: 'request.network' }, optional: true, limits },
  attempts: { name: 'a', key: 'ip', counts: 'attempts', limits }
}

/** A server with this rule, and how each request in turn ends. */
async function serve(t: Test, limit: RouteLimit, options: FastifyServerOptions = {}, gone?: Gone) {
  const { app } = await open(t, { filters: [{ name: 'open', check: () => {} }] }, options)
  let tell: (ended: string) => void = () => {}
  app.setErrorHandler<{ code: string }>((error, _request, reply) => {
    tell(error.code)
    reply.code(400).send()
  })
  app.decorateRequest('network', null)
  const preHandler = async (request: FastifyRequest) => {
    if (gone) await gone(request)
    Object.assign(request, { network: request.ip })
  }
  app.post('/x', { config: { limit }, preHandler }, async () => {
    tell('sent')
    return 'sent'
  })
  const port = await listen(app)
  const ended = () =>
    new Promise<string>(resolve => {
      tell = resolve
    })
  return { port, ended }
}

type Gone = (request: FastifyRequest) => Promise<unknown>

// Node 26 emits an error for the reset first, which `once` would throw.
const closed: Gone = async ({ raw: { socket } }) =>
  socket.destroyed || new Promise(resolve => socket.once('close', resolve))

async function askAndReset(port: number, more = ''): Promise<void> {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  await once(socket, 'connect')
  socket.write(`POST /x HTTP/1.1\r\nhost: x\r\nx-id: 1\r\n${more}content-length: 0\r\n\r\n`)
  socket.resetAndDestroy()
}

for (const [name, rule] of Object.entries(rules)) {
  t.test(`a request whose connection is reset at once sends nothing: ${name}`, async t => {
    const { port, ended } = await serve(t, rule)
    for (let i = 0; i < 2; i++) {
      const end = ended()
      await askAndReset(port)
      t.equal(await end, 'FST_SEND_LIMIT_KEY_MISSING')
    }
  })
}

// The reset falls into the turn of the decision: the address is gone, and Node does not know why yet.
t.test('a request whose connection is reset right before the decision sends nothing', async t => {
  const { app } = await open(t)
  let reset = () => {}
  const preHandler: preHandlerHookHandler = (_request, _reply, done) => {
    reset()
    done()
  }
  const ended = new Promise<string>(tell => {
    app.setErrorHandler<{ code: string }>((error, _request, reply) => {
      tell(error.code)
      reply.code(400).send()
    })
    app.post('/x', { config: { limit: rules['an address'] as RouteLimit }, preHandler }, async () => {
      tell('sent')
      return 'sent'
    })
  })
  const port = await listen(app)
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  await once(socket, 'connect')
  reset = () => socket.resetAndDestroy()
  socket.write('POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n')
  t.equal(await ended, 'FST_SEND_LIMIT_KEY_MISSING')
})

t.test('a request whose HTTP/2 stream is reset before the decision sends nothing', async t => {
  let reset = () => {}
  const gone: Gone = async ({ raw }) => {
    const { stream } = raw as unknown as { stream: NodeJS.EventEmitter }
    const close = once(stream, 'close')
    reset()
    await close
  }
  const options = { http2: true } as FastifyServerOptions
  const { port, ended } = await serve(t, rules['an address'] as RouteLimit, options, gone)
  const session = connect2(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  for (let i = 0; i < 2; i++) {
    const end = ended()
    const stream = session.request({ ':method': 'POST', ':path': '/x' }).on('error', () => {})
    reset = () => stream.close(constants.NGHTTP2_CANCEL)
    stream.end()
    t.equal(await end, 'FST_SEND_LIMIT_KEY_MISSING')
  }
})

// Node destroys the connection first, and its streams a phase of the event loop later; the decision may fall between.
for (const name of ['an address', 'attempts', 'blocked'])
  t.test(`requests whose HTTP/2 connection is reset pass no rule beyond its max: ${name}`, async t => {
    const { app } = await open(t, {}, { http2: true } as FastifyServerOptions)
    app.setErrorHandler((_error, _request, reply) => void reply.code(400).send())
    let sent = 0
    app.post('/x', { config: { limit: rules[name] as RouteLimit } }, async () => {
      sent++
      return 'sent'
    })
    const address = await app.listen({ host: '127.0.0.1', port: 0 })
    for (let i = 0; i < 20; i++) {
      const socket = connect(Number(new URL(address).port), '127.0.0.1').on('error', () => {})
      const session = connect2(address, { createConnection: () => socket }).on('error', () => {})
      await once(session, 'connect')
      session
        .request({ ':method': 'POST', ':path': '/x' })
        .on('error', () => {})
        .end()
      setImmediate(() => socket.resetAndDestroy())
      await new Promise(resolve => session.once('close', resolve))
    }
    await app.close()
    t.ok(sent <= (name === 'blocked' ? 0 : 1), `${sent} sent`)
  })

t.test('an address forwarded by a proxy is known even after the connection is reset', async t => {
  const { port, ended } = await serve(
    t,
    rules['an address'] as RouteLimit,
    { trustProxy: (_: string, hop: number) => hop < 1 },
    closed
  )
  const found: string[] = []
  for (const address of ['192.0.2.1', '192.0.2.1', '192.0.2.2']) {
    const end = ended()
    await askAndReset(port, `x-forwarded-for: ${address}\r\n`)
    found.push(await end)
  }
  t.same(found, ['sent', 'FST_SEND_LIMIT_EXCEEDED', 'sent'])
})
