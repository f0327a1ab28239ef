import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance, RouteHandlerMethod } from 'fastify'
import t, { type Test } from 'tap'
import { open } from '../helper/face.js'
import { gate } from '../helper/gate.js'
import { turns } from '../helper/turns.js'
import { until } from '../helper/until.js'
import { gone } from './settlement/places.js'

const flight = { name: 'flight', key: { value: 'query.id' }, lock: '30s' }
const ask = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`

function endless(): Readable {
  return new Readable({
    read() {
      this.push('more '.repeat(10_000))
    }
  })
}

const handlers: Record<string, RouteHandlerMethod> = {
  'async, returns reply.send': async (_, reply) => reply.send('sent'),
  'async, returns reply.send when the client is gone': async (request, reply) => {
    await gone(request)
    return reply.send('sent')
  },
  'async, returns reply.send of a stream': async (_, reply) => reply.send(endless()),
  'async, awaits the reply': async (_, reply) => {
    reply.send('sent')
    await reply
  },
  'async, returns a reply that it writes to by itself': async (_, reply) => {
    reply.raw.writeHead(202).write('mine')
    return reply
  },
  'without a promise, reply.send': (request, reply) => {
    void gone(request).then(() => reply.send('sent'))
  },
  'without a promise, writes by itself': (_, reply) => {
    reply.raw.writeHead(202).write('mine')
  },
  'without a promise, hijacks': (_, reply) => {
    reply.hijack()
    reply.raw.end('mine')
  }
}

/** An app whose hooks take their time, and a client. */
async function start(t: Test, first: RouteHandlerMethod, second: RouteHandlerMethod) {
  const { app } = await open(t, { rules: [flight] })
  app.addHook('onSend', async (_request, _reply, payload) => {
    await new Promise(setImmediate)
    return payload
  })
  app.get('/first', first)
  app.get('/send', { config: { limit: 'flight' } }, second)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1').resume()
  socket.on('error', () => {})
  await once(socket, 'connect')
  return { app, socket }
}

async function held(app: FastifyInstance, id: string): Promise<boolean> {
  const { rules } = await app.limit.peek({ flight: id })
  return rules[0]?.limits[0]?.remaining === 0
}

async function free(app: FastifyInstance, id = 'a'): Promise<void> {
  await until(async () => !(await held(app, id)), 'a free lock')
}

for (const [name, handler] of Object.entries(handlers)) {
  t.test(`the lock of a pipelined request is free once its client is gone: ${name}`, async t => {
    const runs = gate()
    const first: RouteHandlerMethod = async request => {
      await gone(request)
      return 'first'
    }
    const { app, socket } = await start(t, first, function (request, reply) {
      runs.open()
      return handler.call(this, request, reply)
    })
    socket.write(ask('/first') + ask('/send?id=a'))
    await runs.opened
    await turns()
    socket.destroy()
    await free(app)
  })
}

t.test('the locks of all pipelined requests are free once their client is gone', async t => {
  const first: RouteHandlerMethod = async request => {
    await gone(request)
    return 'first'
  }
  let runs = 0
  const { app, socket } = await start(t, first, async (_, reply) => {
    runs++
    return reply.send('sent')
  })
  const ids = ['a', 'b', 'c']
  socket.write(ask('/first') + ids.map(id => ask(`/send?id=${id}`)).join(''))
  await until(() => runs === ids.length, 'the handlers')
  socket.destroy()
  for (const id of ids) await free(app, id)
})

t.test('the lock of a pipelined request is free when the first reply closes the connection', async t => {
  let runs = 0
  const first: RouteHandlerMethod = async (_, reply) => {
    await until(() => runs === 1, 'the second handler')
    return reply.header('connection', 'close').send('first')
  }
  const { app, socket } = await start(t, first, async (_, reply) => {
    runs++
    return reply.code(202).send('sent')
  })
  socket.write(ask('/first') + ask('/send?id=a'))
  await once(socket, 'close')
  t.equal(runs, 1)
  await free(app)
})

t.test(
  'many pipelined requests are each answered, with locks released and no warning of listeners',
  async t => {
    const warnings: string[] = []
    const hear = ({ message }: Error) => void warnings.push(message)
    process.on('warning', hear)
    t.teardown(() => process.off('warning', hear))
    const onward = gate()
    let server: Socket | undefined
    const first: RouteHandlerMethod = async request => {
      server = request.raw.socket
      await onward.opened
      return 'first'
    }
    let runs = 0
    const { app, socket } = await start(t, first, async (_, reply) => {
      runs++
      return reply.code(202).send('sent')
    })
    const ids = Array.from({ length: 30 }, (_, i) => `id${i}`)
    const asked = ids.map(id => ask(`/send?id=${id}`)).join('')
    let answers = 0
    socket.on('data', chunk => (answers += String(chunk).split('HTTP/1.1 202').length - 1))
    socket.write(ask('/first') + asked)
    await until(() => runs === ids.length, 'the handlers')
    t.ok(await held(app, 'id29'), 'the last request waits and holds its lock')
    onward.open()
    await until(() => answers === ids.length, 'the answers')
    for (const id of ids) await free(app, id)
    t.ok((server as Socket).listenerCount('close') < 10)
    t.same(warnings, [])
  }
)
