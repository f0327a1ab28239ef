import { once } from 'node:events'
import { createServer, request as http } from 'node:http'
import type { AddressInfo } from 'node:net'
import axios from 'axios'
import Fastify from 'fastify'
import { createTransport } from 'nodemailer'
import t, { type Test } from 'tap'
import { limitPlugin } from '../../plugin/index.js'
import { startMail } from '../app/smtp.js'

/** What becomes of the message: the provider has read it and hangs or breaks off, or there is no provider. */
type Fate = 'hang' | 'break' | 'refuse'
type Send = (url: string, signal: AbortSignal) => Promise<unknown>

const body = 'your code is 123456'
const ms = 50

const clients: Record<string, Send> = {
  fetch: (url, signal) => fetch(url, { method: 'POST', body, signal }),
  'node:http': (url, signal) =>
    new Promise((resolve, reject) => {
      http(url, { method: 'POST', signal }, resolve).on('error', reject).end(body)
    }),
  'axios with a timeout': url => axios.post(url, body, { timeout: ms }),
  'axios with a signal': (url, signal) => axios.post(url, body, { signal }),
  nodemailer: url => {
    const mail = createTransport({ url, socketTimeout: ms })
    return mail.sendMail({ from: 'shop@example.com', to: 'jane@example.com', text: body })
  }
}

async function startProvider(t: Test, fate: Fate): Promise<string> {
  const provider = createServer((request, reply) => {
    request.resume().on('end', () => {
      if (fate === 'break') reply.socket?.resetAndDestroy()
    })
  }).listen(0, '127.0.0.1')
  await once(provider, 'listening')
  t.teardown(() => {
    provider.closeAllConnections()
    provider.close()
  })
  return `http://127.0.0.1:${(provider.address() as AddressInfo).port}`
}

async function startSmtp(t: Test, fate: Fate): Promise<string> {
  const server = await startMail(t)
  if (fate !== 'refuse') server.mode = fate
  return server.url
}

/** Nobody listens there any more. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

for (const [name, send] of Object.entries(clients)) {
  for (const fate of ['hang', 'break', 'refuse'] as const) {
    t.test(`${name}, ${fate}`, async t => {
      const url = new URL(await (name === 'nodemailer' ? startSmtp : startProvider)(t, fate))
      const hosts = ['127.0.0.1']
      if (fate === 'refuse') {
        url.port = String(await closedPort())
        // A name of several addresses, each of which is tried.
        hosts.push('localhost')
      }
      const app = Fastify()
      t.teardown(() => app.close())
      const limits = [{ max: 2, window: '60s' }]
      await app.register(limitPlugin, { rules: [{ name: 'send', key: { value: 'query.id' }, limits }] })
      app.get('/send', { config: { limit: 'send' } }, async () => {
        await send(url.href, AbortSignal.timeout(ms))
      })
      for (const host of hosts) {
        url.hostname = host
        t.equal((await app.inject('/send?id=a')).statusCode, 500, host)
      }
      const { rules } = await app.limit.peek({ send: 'a' })
      t.equal(rules[0]?.limits[0]?.remaining, fate === 'refuse' ? 2 : 1)
    })
  }
}

t.test('none of the addresses of a name answers', async t => {
  const app = Fastify()
  t.teardown(() => app.close())
  const limits = [{ max: 1, window: '60s' }]
  await app.register(limitPlugin, { rules: [{ name: 'send', key: { value: 'query.id' }, limits }] })
  app.get('/send', { config: { limit: 'send' } }, async () => {
    // Of Node (lib/net.js); it takes minutes until it comes.
    const tried = ['127.0.0.1', '::1'].map(address =>
      Object.assign(new Error(), { code: 'ETIMEDOUT', syscall: 'connect', address })
    )
    throw new TypeError('fetch failed', {
      cause: Object.assign(new AggregateError(tried), { code: 'ETIMEDOUT' })
    })
  })
  await app.inject('/send?id=a')
  t.ok((await app.limit.peek({ send: 'a' })).allowed)
})
