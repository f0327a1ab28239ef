import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { makeCertificate } from '../helper/certificate.js'
import { startHaproxy } from '../helper/haproxy.js'
import { freePort } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { without } from '../helper/without.js'
import {
  ADMIN_KEY,
  BACKEND,
  block,
  CLOSED,
  clientOf,
  countsSeenAddress,
  end,
  HOST,
  KEY,
  losesOne,
  OPERATORS,
  PORTS,
  sms,
  startInstances
} from './deployed.js'

const skip = without('haproxy') || without('openssl')

t.test('HAProxy in front of two instances, with the file of the page', { skip }, async t => {
  const instances = await startInstances(t)
  const { at, provider, withPorts } = instances
  const port = await freePort()
  const { cert, key } = makeCertificate(at(''), HOST)
  writeFileSync(at('both.pem'), readFileSync(cert, 'utf8') + readFileSync(key, 'utf8'))
  const sections = withPorts(block('haproxy'))
    .replace('bind :443 ', `bind 127.0.0.1:${port} `)
    .replace('192.0.2.10', BACKEND)
    .replace('/etc/haproxy/api.example.com.pem', at('both.pem'))
  const { log, admin, server } = await startHaproxy(t, sections)
  const place = { ...instances, ...clientOf(port, cert) }
  const stateOf = async (which: string) => (await server(withPorts(which))).status
  /** Sends messages. @returns the instances that did it */
  async function send(t: Test, ...numbers: number[]) {
    const before = provider.asked.length
    for (const i of numbers) t.equal((await place.ask('/v1/sms', sms(i))).status, 202)
    const asked = provider.asked.slice(before)
    t.equal(asked.length, numbers.length, 'each message is sent once')
    return [...new Set(asked.map(({ path }) => path.slice(1)))].sort()
  }

  t.test('a check asks each instance for its health', async () => {
    const good = async (which: string) => (await server(withPorts(which))).check_status === 'L7OK'
    for (const which of PORTS) await until(() => good(which), `a check of ${which}`)
  })

  t.test('paths that only operators need are closed, however they are spelled; others are open', async t => {
    const headers = { 'x-admin-key': ADMIN_KEY }
    for (const path of [...OPERATORS, ...CLOSED])
      t.equal((await place.ask(path, { headers })).status, 404, path)
    t.equal((await place.ask('/v1/quota', { headers: { 'x-api-key': KEY } })).status, 200)
    t.same(await send(t, 0, 1, 2, 3), PORTS)
  })

  t.test('limits count the address that HAProxy sees; answers arrive with their headers', async t => {
    const refused = await countsSeenAddress(t, place)
    t.match(refused, {
      headers: { 'content-type': /^application\/problem\+json/, 'retry-after': /^\d+$/, ratelimit: /ip-60s/ },
      problem: { status: 429 }
    })
    const sent = await place.ask('/v1/sms', sms(4))
    t.match(sent, { status: 202, problem: { id: String } })
    // Of another connection than the client's.
    t.equal(sent.headers['keep-alive'], undefined)
    const invalid = await place.ask('/v1/sms', { ...sms(5), body: {} })
    t.match(invalid, { status: 422, headers: { 'content-type': /^application\/problem\+json/ } })
    t.match(invalid.problem, { status: 422 })
  })

  t.test('HTTP/2', async t => {
    const session = connect(`https://127.0.0.1:${port}`, {
      ca: readFileSync(cert),
      servername: 'api.example.com'
    })
    t.teardown(() => session.close())
    const request = session.request({ ':path': '/v1/quota', 'x-api-key': KEY })
    const [headers] = await once(request, 'response')
    t.equal(session.alpnProtocol, 'h2')
    t.equal(headers[':status'], 200)
    JSON.parse(await text(request))
  })

  t.test('a request whose body has not arrived stays in HAProxy', async t => {
    /** How many requests it has handed to instances. */
    const taken = async () => {
      const counts = await Promise.all(PORTS.map(which => server(withPorts(which))))
      return counts.reduce((sum, { stot }) => sum + Number(stot), 0)
    }
    const before = await taken()
    const body = JSON.stringify(sms(6).body)
    const head = [
      ...['POST /v1/sms HTTP/1.1', 'host: api.example.com', `x-api-key: ${KEY}`, 'expect: 100-continue'],
      ...['content-type: application/json', `content-length: ${body.length}`]
    ]
    const socket = place.begin(`${head.join('\r\n')}\r\n\r\n`)
    const [said] = await once(socket, 'data')
    t.match(`${said}`, /^HTTP\/1.1 100 /)
    socket.write(body.slice(0, 20))
    await place.ask('/v1/quota')
    t.equal(await taken(), before + 1)
    socket.write(body.slice(20))
    const [answer] = await once(socket, 'data')
    t.match(`${answer}`, /^HTTP\/1.1 202 /)
    t.equal(await taken(), before + 2)
    socket.destroy()
  })

  t.test('an address has 100 connections, a server of the operator more', async t => {
    async function connections(many: number, from: string) {
      const sockets = Array.from({ length: many }, () => place.begin('', from))
      const opened = sockets.map(socket =>
        once(socket, 'secureConnect').then(
          () => true,
          () => false
        )
      )
      const results = await Promise.all(opened)
      for (const socket of sockets) socket.destroy()
      return results.filter(Boolean).length
    }
    t.equal(await connections(103, '127.0.0.8'), 100)
    t.equal(await connections(103, BACKEND), 103)
  })

  t.test('an instance is restarted without a failed request', async t => {
    for (const which of PORTS) {
      const others = PORTS.filter(port => port !== which)
      t.equal((await admin(withPorts(`set server api/${which} state maint`))).trim(), '')
      t.same(await send(t, 10, 11, 12, 13), others)
      await end(place.instance(which), 'SIGTERM')
      t.same(await send(t, 14, 15), others)
      await place.start(which)
      await until(
        async () => (await fetch(`http://127.0.0.1:${place.portOf(which)}/readyz`)).status === 200,
        'ready'
      )
      await admin(withPorts(`set server api/${which} state ready`))
      await until(async () => (await stateOf(which)) === 'UP', which)
      t.same(await send(t, 16, 17, 18, 19), PORTS)
    }
  })

  t.test('an instance that dies loses its request alone, and is left out until it is back', async t => {
    const checks = (state: string) =>
      Promise.all(PORTS.map(which => admin(withPorts(`${state} health api/${which}`))))
    await checks('disable')
    const dead = await losesOne(t, place)
    const others = PORTS.filter(port => port !== dead)
    // Before a check has noticed it, HAProxy asks the other one instead.
    t.same(await send(t, 20, 21, 22, 23), others)
    await checks('enable')
    await until(async () => (await stateOf(dead)) === 'DOWN', 'a check that fails')
    t.same(await send(t, 24, 25), others)
    await place.start(dead)
    await until(async () => (await stateOf(dead)) === 'UP', 'a check that succeeds')
    t.same(await send(t, 26, 27, 28, 29), PORTS)
  })

  t.test('the log names instances that are down, and neither addresses nor paths', async t => {
    await until(() => log().includes('is DOWN'), 'the log')
    t.notMatch(log(), /127\.0\.0\.[2-9]|\/v1\//)
  })
})
