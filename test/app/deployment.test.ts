import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { handlerTimeoutOf, readConfig } from '../../app/config.js'
import { makeCertificate } from '../helper/certificate.js'
import { folderOf } from '../helper/folder.js'
import { linked } from '../helper/linked.js'
import { freePort, startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { without } from '../helper/without.js'
import {
  ADMIN_KEY,
  BACKEND,
  block,
  CLOSED,
  countsSeenAddress,
  deploy,
  end,
  KEY,
  losesOne,
  OPERATORS,
  PORTS,
  run,
  sms,
  startRedisOfPage,
  unit
} from './deployed.js'

const skip = without('nginx') || without('curl') || without('openssl') || without('pgrep')

const rotates = without('logrotate') || (process.getuid?.() !== 0 && 'logrotate changes users as root alone')

const recipients = (asked: { body: string }[]) => asked.map(({ body }) => JSON.parse(body).data.to as string)

t.test('nginx in front of two instances', { skip }, async t => {
  const place = await deploy(t)

  t.test('paths that only operators need are closed, however they are spelled', async t => {
    // nginx takes these for a path that is open, and hands them on as they are.
    const open = ['/metrics/../v1/captcha/a', '/metrics;/../v1/captcha/a', '/metrics%23/../v1/captcha/a']
    const headers = { 'x-admin-key': ADMIN_KEY }
    for (const path of [...OPERATORS, ...CLOSED, ...open])
      t.equal((await place.ask(path, { headers })).status, 404, path)
    // Reaches a route that nginx does not open, the only one with a wildcard: the files of /docs.
    const out = '/docs/static/index.html/../../../v1/captcha/a'
    t.equal((await place.ask(out, { headers })).status, 403, out)
    for (const path of OPERATORS) {
      const answer = await fetch(`http://127.0.0.1:${place.portOf('3001')}${path}`, { headers })
      t.equal(answer.status, 200, `${path}, on the machine`)
    }
  })

  t.test('nginx does not tell its version', async t => {
    for (const path of ['/', '/v1/quota']) {
      const { headers, text } = await place.ask(path)
      t.equal(headers.server, 'nginx', path)
      t.notMatch(text, /nginx\/\d/, path)
    }
  })

  t.test('a body that is too large gets the answer of the API', async t => {
    const answer = await place.ask('/v1/sms', { ...sms(0), body: { phone: 'x'.repeat(20_000) } })
    t.match(answer, { status: 413, problem: { status: 413 } })
  })

  t.test('limits count the address that nginx sees, whatever a client claims', async t => {
    await countsSeenAddress(t, place)
  })

  t.test('a server of the operator is limited neither in connections nor in attempts', async t => {
    const head =
      'POST /v1/sms HTTP/1.1\r\nhost: api.example.com\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n'
    /** @returns how often nginx answered what, while that many requests wait for their bodies */
    async function waiting(many: number, from: string) {
      const sockets = Array.from({ length: many }, () => place.begin(head, from))
      const said = await Promise.all(sockets.map(socket => once(socket, 'data')))
      for (const socket of sockets) socket.destroy()
      const statuses = said.map(([bytes]) => `${bytes}`.slice(9, 12))
      return {
        continued: statuses.filter(each => each === '100').length,
        refused: statuses.filter(each => each === '503').length
      }
    }
    t.same(
      await waiting(101, '127.0.0.8'),
      { continued: 100, refused: 1 },
      'another client has 100 connections'
    )
    t.same(await waiting(101, BACKEND), { continued: 101, refused: 0 })
    const tries = Array.from({ length: 31 }, () =>
      place.ask('/v1/captcha/verify', {
        from: BACKEND,
        headers: { 'x-api-key': KEY, 'x-end-user-ip': '203.0.113.7' },
        body: { id: 'A'.repeat(22), code: '123456' }
      })
    )
    for (const { status } of await Promise.all(tries)) t.equal(status, 422)
  })

  let number = 1_000
  /** @returns the answers to requests that are made meanwhile */
  async function askedDuring(work: Promise<unknown>): Promise<unknown[]> {
    const answers: unknown[] = []
    let done = false
    const client = async () => {
      while (!done) {
        const i = number++
        // From many addresses, so that no limit on one is reached.
        const asking = place.ask('/v1/sms', { ...sms(i), from: `127.0.1.${(i % 250) + 1}` })
        answers.push(
          await asking.then(
            ({ status }) => status,
            ({ message }) => message
          )
        )
        // Leaves the machine to the instances that start.
        await sleep(120)
      }
    }
    const clients = Array.from({ length: 3 }, client)
    await work.finally(() => (done = true))
    await Promise.all(clients)
    return answers
  }

  t.test('the script restarts both instances: no request fails, no message is sent twice', async t => {
    const { provider } = place
    const before = provider.asked.length
    const pids = PORTS.map(port => place.instance(port).child.pid)
    const answers = await askedDuring(place.restart())
    t.same(new Set(answers), new Set([202]))
    t.ok(answers.length > 50, `${answers.length} requests`)
    const sent = recipients(provider.asked.slice(before))
    t.equal(sent.length, answers.length)
    t.equal(new Set(sent).size, sent.length, 'each message is sent once')
    for (const [i, port] of PORTS.entries()) t.not(place.instance(port).child.pid, pids[i], port)
  })

  t.test('no request fails in a restart after one that stopped with an instance left out', async t => {
    await place.leaveOut('3002')
    t.same(new Set(await askedDuring(place.restart())), new Set([202]))
  })

  t.test('no request fails in a restart when one instance had ended', async t => {
    await end(place.instance('3002'), 'SIGKILL')
    t.same(new Set(await askedDuring(place.restart())), new Set([202]))
  })

  t.test('a client that stops sending its request loses its connection', { timeout: 40_000 }, async () => {
    const head = 'POST /v1/sms HTTP/1.1\r\nhost: api.example.com\r\ncontent-length: 2\r\n'
    await Promise.all([head, `${head}\r\n{`].map(begun => text(place.begin(begun))))
  })

  t.test('logrotate rotates the trail: no line is lost, old files go', { skip: rotates }, async t => {
    const { at, env, provider } = place
    const { uid, gid } = userInfo()
    const rule = block('logrotate')
      .replace('/var/log/verification-api', at('log'))
      .replace('su verification-api verification-api', `su ${uid} ${gid}`)
    writeFileSync(at('rule'), rule)
    chmodSync(at('rule'), 0o600)
    chmodSync(at('log'), 0o750)
    // The file of an instance that writes nothing, too.
    writeFileSync(at('log/3003.log'), '')
    const old = [3001, 3003].map(port => at(`log/${port}.log-20200101-1577836800.gz`))
    for (const file of old) {
      writeFileSync(file, '')
      utimesSync(file, 1_577_836_800, 1_577_836_800)
    }
    const current = () => readdirSync(at('log')).filter(name => name.endsWith('.log'))
    await run('logrotate', ['-f', '-s', at('state'), at('rule')], { env })
    await until(() => current().length === 2, 'the new files')
    t.same(old.filter(existsSync), [])
    for (const name of current()) t.equal(statSync(at(`log/${name}`)).mode & 0o777, 0o600)
    for (let i = 0; i < 8; i++) t.equal((await place.ask('/v1/sms', sms(100 + i))).status, 202)
    const sends = (names: string[]) =>
      names.flatMap(name => readFileSync(at(`log/${name}`), 'utf8').match(/"event":"send"/g) ?? []).length
    t.equal(sends(current()), 8)
    t.equal(sends(readdirSync(at('log'))), provider.asked.length)
  })

  t.test('a request that a dying instance had taken is not tried again, one that it had not is', async t => {
    const { provider } = place
    const before = provider.asked.length
    const dead = await losesOne(t, place)
    const another = async (i: number) => t.equal((await place.ask('/v1/sms', sms(201 + i))).status, 202)
    for (let i = 0; i < 8; i++) await another(i)
    t.equal(provider.asked.length, before + 9)
    // Once it is back it is asked at once, although it has just failed.
    await place.start(dead)
    for (const port of PORTS) if (port !== dead) await end(place.instance(port), 'SIGKILL')
    for (let i = 8; i < 16; i++) await another(i)
    t.equal(provider.asked.length, before + 17)
  })
})

t.test('the time-outs of the unit and of nginx leave time for requests under way', async t => {
  const config = readConfig({})
  const drainSeconds = handlerTimeoutOf(config) / 1_000 + 15
  t.ok(Number(unit('TimeoutStopSec')) > drainSeconds)
  const [, read] = /proxy_read_timeout (\d+)s;/.exec(block('site')) ?? []
  t.ok(Number(read) > handlerTimeoutOf(config) / 1_000)
  const challenging = { CHALLENGE_URL: 'https://challenge.example', CHALLENGE_SECRET: 'x' }
  const longest = readConfig({ SEND_TIMEOUT: '25000', STORE_TIMEOUT: '10000', ...challenging })
  const longestSeconds = handlerTimeoutOf(longest) / 1_000 + 15
  t.match(readFileSync('docs/deployment.md', 'utf8'), ` ${longestSeconds} with the longest time-outs.`)
  const compose = readFileSync('compose.yaml', 'utf8')
  t.match(compose, `takes ${longestSeconds} seconds by the longest time-outs.`)
  t.ok(Number(/stop_grace_period: (\d+)s/.exec(compose)?.[1]) > longestSeconds)
})

t.test('a crash leaves no secrets, recipients and codes in a core dump', async t => {
  t.equal(unit('LimitCORE'), '0')
})

t.test('systemd understands the unit', { skip: without('systemd-analyze') }, async t => {
  const file = join(folderOf(t), 'verification-api@.service')
  writeFileSync(file, block('unit').replace('/usr/bin/node', process.execPath))
  const { stderr } = await run('systemd-analyze', ['verify', '--man=no', '--recursive-errors=no', file])
  t.equal(stderr, '')
})

t.test('with the settings for replicas Redis takes writes only while it has one', async t => {
  const master = await startRedisOfPage(t, 'redis', 'replicas')
  await master.client.config('SET', 'repl-diskless-sync-delay', '0')
  const set = () => master.client.set('a', 'b')
  await t.rejects(set(), /NOREPLICAS/)
  await startRedis(t, {
    args: [
      ...['--replicaof', `127.0.0.1 ${master.port}`, '--masteruser', 'replica'],
      ...['--masterauth', 'REPLICA_PASSWORD']
    ]
  })
  await until(
    () =>
      set().then(
        () => true,
        () => false
      ),
    'a replica'
  )
})

t.test(
  'with the settings for TLS Redis and its replica are connected by TLS',
  { skip: without('openssl') },
  async t => {
    const { cert, key } = makeCertificate(folderOf(t), 'IP:127.0.0.1')
    // The address and the port without TLS stay those of this test.
    const lines = block('tls')
      .replace(/^(bind|port) .*\n/gm, '')
      .replace('/etc/redis/redis.pem', cert)
      .replace('/etc/redis/redis.key', key)
      .replace('/etc/ssl/certs/ca-certificates.crt', cert)
    const start = async (port: number, ...args: string[]) => {
      const tls = lines.replace('6379', `${port}`).trim().split(/\s/)
      const settings = tls.map((word, i) => (i % 2 === 0 ? `--${word}` : word))
      return startRedis(t, { args: [...settings, ...args] })
    }
    const port = await freePort()
    const master = await start(port)
    await master.client.config('SET', 'repl-diskless-sync-delay', '0')
    const follows = ['--replicaof', `127.0.0.1 ${port}`, '--tls-replication', 'yes']
    const replica = await start(await freePort(), ...follows)
    await linked(replica)
  }
)
