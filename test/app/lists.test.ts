import { once } from 'node:events'
import type { FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Lists, Standing } from '../../app/lists/lists.js'
import { MemoryLists } from '../../app/lists/memory-lists.js'
import { RedisLists } from '../../app/lists/redis-lists.js'
import type { Recipient } from '../../app/recipient.js'
import { busier } from '../helper/busy.js'
import { scriptCalls, startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { way } from '../helper/way.js'
import { ADMIN_KEY } from './helper.js'
import { ask, open } from './operating.js'
import { START_MS, stillClock } from './still-clock.js'

type Test = Parameters<typeof startRedis>[0]

const HASH = 'ltrg0q3VbTzbH-2J2kaApQ'
const masked = '+86*******8000'

/** With a long time limit, so that a busy machine does not look like a Redis that hangs. */
const listsOn = (client: Redis, max?: number, fingerprint = 'a fingerprint') =>
  new RedisLists(client, fingerprint, 10_000, max)

interface Place {
  advance(ms: number): void
  lists(max?: number): Lists
}

const places = {
  async memory(): Promise<Place> {
    const { clock, advance } = stillClock()
    return {
      advance,
      lists: max => new MemoryLists(clock, max)
    }
  },
  async redis(t: Test): Promise<Place> {
    const { client, clock } = await startRedis(t, { clock: true, startMs: START_MS })
    return {
      advance: ms => clock.advance(ms),
      lists: max => listsOn(client, max)
    }
  }
}

for (const [name, place] of Object.entries(places)) {
  t.test(name, async t => {
    t.test('a recipient is put on a list, found there, and removed', async t => {
      const lists = (await place(t)).lists()
      t.equal(await lists.get(HASH), null)
      const placed = {
        standing: 'blocked',
        masked,
        reason: 'asked us\u2028to {"since":1}',
        since: START_MS
      } as const
      t.same(await lists.put(HASH, placed), placed)
      t.same(await lists.get(HASH), placed)
      t.equal(await lists.get('ltrg0q3VbTzbH-2J2kaApA'), null)
      await lists.remove(HASH)
      await lists.remove(HASH)
      t.equal(await lists.get(HASH), null)
      t.same(await lists.all({ limit: 10 }), { entries: [], next: null })
    })

    t.test('a recipient is on one list at a time: a later entry replaces the former', async t => {
      const { lists: open, advance } = await place(t)
      const lists = open()
      await lists.put(HASH, { standing: 'blocked', masked, reason: 'a', durationMs: 1_000 })
      advance(500)
      await lists.put(HASH, { standing: 'allowed', masked })
      const allowed = { standing: 'allowed', masked, since: START_MS + 500 }
      t.same(await lists.get(HASH), allowed)
      t.same((await lists.all({ limit: 10 })).entries, [{ recipientHash: HASH, ...allowed }])
      t.same((await lists.all({ limit: 10, standing: 'blocked' })).entries, [])
      advance(1_000)
      t.same(await lists.get(HASH), allowed, 'the end of the former entry does not end the new one')
    })

    t.test('an entry ends when its duration is over', async t => {
      const { lists: open, advance } = await place(t)
      const lists = open()
      const placed = await lists.put(HASH, { standing: 'blocked', masked, durationMs: 60_000 })
      t.equal(placed.until, START_MS + 60_000)
      advance(59_999)
      t.same(await lists.get(HASH), { ...placed, leftMs: 1 })
      advance(1)
      t.same((await lists.all({ limit: 10 })).entries, [])
      t.equal(await lists.get(HASH), null)
    })

    t.test('entries are read in pages, the newest first', async t => {
      const { lists: open, advance } = await place(t)
      const lists = open()
      for (let i = 0; i < 7; i++) {
        if (i % 2) advance(1)
        const standing = i % 3 === 0 ? 'allowed' : 'blocked'
        await lists.put(`${i}`, { standing, masked: `${i}`, ...(i === 4 && { durationMs: 5_000 }) })
      }
      async function pages(standing?: 'blocked' | 'allowed', limit = 2) {
        const all: string[][] = []
        let after: string | undefined
        do {
          const page = await lists.all({ standing, limit, after })
          all.push(page.entries.map(each => String(each.masked)))
          after = page.next ?? undefined
        } while (after !== undefined && all.length < 20)
        return all
      }
      t.same(await pages(), [['6', '5'], ['4', '3'], ['2', '1'], ['0']])
      t.same(await pages('allowed', 3), [['6', '3', '0']])
      t.same(await pages('blocked'), [
        ['5', '4'],
        ['2', '1']
      ])
      const { next } = await lists.all({ limit: 3 })
      await lists.remove('4')
      await lists.put('1', { standing: 'blocked', masked: '1' })
      t.same(
        (await lists.all({ limit: 9, after: next as string })).entries.map(each => each.masked),
        ['3', '2', '0']
      )
      advance(5_000)
      t.same((await pages(undefined, 9)).flat(), ['1', '6', '5', '3', '2', '0'])
    })

    t.test('lists that are full take no other recipient until an entry ends', async t => {
      const { lists: open, advance } = await place(t)
      const lists = open(2)
      const put = (hash: string, durationMs?: number) =>
        lists.put(hash, { standing: 'blocked', masked, durationMs })
      await put('a')
      await put('b', 1_000)
      await put('a')
      await t.rejects(put('c'), { statusCode: 503, code: 'LISTS_FULL' })
      t.equal(await lists.get('c'), null)
      advance(1_000)
      await put('c')
    })
  })
}

t.test('the lists are in Redis under one hash tag, without numbers and addresses in clear', async t => {
  const { client, url } = await startRedis(t)
  const { app } = await open(t, { env: { REDIS_URL: url } })
  const act = (action: string, payload: object) =>
    ask(app, 'POST', `/v1/admin/recipients/${action}`, { payload, headers: { 'x-admin-key': ADMIN_KEY } })
  await act('block', { phone: '13800138000', duration: '1m' })
  await act('allow', { email: 'someone@example.com' })
  const keys = async () => (await client.keys('list:*')).sort()
  t.same(
    await keys(),
    ['allowed', 'blocked', 'ends', 'entries', 'placings', 'secret'].map(name => `list:{recipients}:${name}`)
  )
  const values = [
    await client.hgetall('list:{recipients}:entries'),
    ...(await Promise.all(
      ['allowed', 'blocked', 'ends'].map(name => client.zrange(`list:{recipients}:${name}`, '0', '-1'))
    ))
  ]
  t.notMatch(JSON.stringify(values), /13800138000|someone/)
  t.equal((await act('unblock', { phone: '13800138000' })).status, 200)
  t.equal((await act('unblock', { email: 'someone@example.com' })).status, 200)
  t.same(
    await keys(),
    ['list:{recipients}:placings', 'list:{recipients}:secret'],
    'no recipient is left in Redis'
  )
})

t.test('lists under another secret are not touched, and fail the check at the start', async t => {
  const { client } = await startRedis(t)
  const [ours, others] = ['ours', 'theirs'].map(each => listsOn(client, undefined, each)) as [
    RedisLists,
    RedisLists
  ]
  const differs = {
    name: 'ConfigError',
    message: /^RECIPIENT_SECRET, or LIMIT_SECRET .* list:\{recipients\}:\*;/
  }
  await ours.verify()
  const placed = await ours.put(HASH, { standing: 'blocked', masked })
  for (const asked of [
    (): Promise<unknown> => others.get(HASH),
    () => others.put(HASH, { standing: 'allowed', masked }),
    () => others.remove(HASH),
    () => others.all({ limit: 1 })
  ])
    await t.rejects(asked(), { code: 'LISTS_UNAVAILABLE', cause: differs })
  await t.rejects(others.verify(), differs)
  await ours.verify()
  t.same(await ours.get(HASH), placed)
  await client.del('list:{recipients}:secret')
  for (const each of [ours, others])
    await t.rejects(each.verify(), differs, 'lists without the fingerprint of their secret belong to nobody')
  await client.del(await client.keys('list:{recipients}:*'))
  await others.verify()
  await t.rejects(ours.verify(), differs)
})

t.test('a recipient who is blocked first of all on a full Redis stays blocked', async t => {
  const { client } = await startRedis(t)
  await client.config('SET', 'maxmemory', '1')
  const lists = listsOn(client)
  await lists.verify()
  const placed = await lists.put(HASH, { standing: 'blocked', masked })
  t.same(await lists.get(HASH), placed)
  await client.config('SET', 'maxmemory', '0')
  t.same(await listsOn(client).get(HASH), placed, 'the lists have the fingerprint of their secret')
  await lists.verify()
})

t.test('a request that passes as the lists are under another secret is logged with that reason', async t => {
  const { client, url } = await startRedis(t)
  const log: string[] = []
  const { app } = await open(t, { env: { REDIS_URL: url }, routes: sends, log })
  await client.set('list:{recipients}:secret', 'that of others')
  t.equal((await send(app, { 'x-to': 'b' })).status, 200)
  const [line = ''] = log.filter(line => line.includes('passed without the block list'))
  t.match(JSON.parse(line).err.message, /^RECIPIENT_SECRET, or LIMIT_SECRET/)
})

t.test('entries that have ended are on no list, however many are still to be removed', async t => {
  const { client, clock } = await startRedis(t, { clock: true, startMs: START_MS })
  const lists = listsOn(client)
  const many = Array.from({ length: 4_500 }, (_, i) => `${i}`)
  await Promise.all(many.map(each => lists.put(each, { standing: 'blocked', masked, durationMs: 1_000 })))
  clock.advance(1_000)
  t.same((await lists.all({ limit: 10 })).entries, [])
  t.equal(await lists.get('0'), null)
  const placed = await listsOn(client, 1).put('new', {
    standing: 'blocked',
    masked
  })
  t.same((await lists.all({ limit: 10 })).entries, [{ recipientHash: 'new', ...placed }])
})

t.test(
  'an ended entry is removed when a recipient is put on a list or looked up, or a list is read',
  async t => {
    const { client, clock } = await startRedis(t, { clock: true, startMs: START_MS })
    const lists = listsOn(client)
    for (const cleanUp of [
      () => lists.put('new', { standing: 'allowed', masked }),
      () => lists.get('another'),
      () => lists.all({ limit: 1, standing: 'allowed' })
    ]) {
      for (const ended of ['one', 'two'])
        await lists.put(ended, { standing: 'blocked', masked, durationMs: 1_000 })
      clock.advance(1_000)
      await cleanUp()
      t.equal(await client.hlen('list:{recipients}:entries'), 1)
      t.equal(await client.exists('list:{recipients}:blocked', 'list:{recipients}:ends'), 0)
    }
  }
)

t.test('the lists give up on a Redis that hangs, though the client has no time limit of its own', async t => {
  const { client, pid } = await startRedis(t)
  const lists = new RedisLists(client, 'a fingerprint')
  process.kill(pid, 'SIGSTOP')
  t.teardown(() => process.kill(pid, 'SIGCONT'))
  await t.rejects(lists.get(HASH), { statusCode: 503, code: 'LISTS_UNAVAILABLE' })
  await t.resolves(lists.verify(), 'the check at the start passes when Redis does not answer')
})

t.test('each look-up is one trip to Redis, whether the recipient is blocked, allowed or unknown', async t => {
  const { client, url } = await startRedis(t)
  const lists = listsOn(client)
  for (const [identity, standing] of [
    ['b', 'blocked'],
    ['a', 'allowed']
  ] as const)
    await lists.put(identity, { standing, masked })
  const watcher = new Redis(url)
  t.teardown(() => watcher.disconnect())
  const calls = async () => (await scriptCalls(watcher)).called
  await lists.get('warm')
  for (const identity of ['b', 'a', 'nobody']) {
    const before = await calls()
    await lists.get(identity)
    t.equal((await calls()) - before, 1, identity)
  }
})

const to = (identity: string): Recipient => ({ channel: 'sms', to: identity, identity, masked })

const put = (app: FastifyInstance, identity: string, standing: Standing) =>
  app.lists.put(app.recipientHash(to(identity)), { standing, masked })

/** A route that sends to the recipient of `x-to`, concealed if `x-concealed` says so. */
function sends(app: FastifyInstance) {
  app.addHook('preHandler', async request => {
    const { 'x-to': identity, 'x-concealed': concealed } = request.headers
    if (typeof identity === 'string') request.recipient = to(identity)
    request.concealed = concealed === 'yes'
  })
  app.post('/send', { config: { limit: 'block-list' } }, async ({ standing }) => ({ standing }))
}

const send = (app: FastifyInstance, headers: Record<string, string>) => ask(app, 'POST', '/send', { headers })

t.test('the filter refuses blocked recipients unless concealed, and passes on each standing', async t => {
  const log: string[] = []
  const { app, events } = await open(t, { routes: sends, log })
  await put(app, 'b', 'blocked')
  await put(app, 'a', 'allowed')
  const refused = await send(app, { 'x-to': 'b' })
  t.match(refused, {
    status: 403,
    body: { code: 'FST_SEND_LIMIT_BLOCKED', 'violated-policies': ['block-list'] }
  })
  t.match(events(), [
    { event: 'refusal', rules: ['block-list'], outcome: 'blocked', retryAfterMs: null, recipient: masked }
  ])
  t.match(await send(app, { 'x-to': 'b', 'x-concealed': 'yes' }), {
    status: 200,
    body: { standing: 'blocked' }
  })
  t.match(await send(app, { 'x-to': 'a' }), { status: 200, body: { standing: 'allowed' } })
  t.match(await send(app, { 'x-to': 'n' }), { status: 200, body: { standing: null } })
  t.match(await send(app, {}), { status: 200, body: { standing: null } })
  t.notMatch(log.join(''), 'passed without', 'without a recipient nothing is looked up')
})

t.test('a process that is too busy to read the answer in time still refuses a blocked recipient', async t => {
  const { url, port } = await startRedis(t)
  const busy = await busier(t, port)
  const { app } = await open(t, { env: { REDIS_URL: url }, routes: sends })
  await put(app, 'b', 'blocked')
  t.equal((await send(app, { 'x-to': 'b' })).status, 403)
  const { get } = app.lists
  app.lists.get = hash => {
    const placed = get.call(app.lists, hash)
    // Longer than the time limit of any command.
    busy(1_200)
    return placed
  }
  t.equal((await send(app, { 'x-to': 'b' })).status, 403)
})

for (const [onError, status] of [
  ['memory', 200],
  ['allow', 200],
  ['deny', 503]
] as const) {
  for (const how of ['is gone', 'hangs'] as const) {
    t.test(`when Redis ${how}, ON_STORE_ERROR=${onError} answers a request ${status}`, async t => {
      const server = await startRedis(t)
      const log: string[] = []
      const env = { REDIS_URL: server.url, ON_STORE_ERROR: onError }
      const { app } = await open(t, { env, routes: sends, log })
      await put(app, 'b', 'blocked')
      t.equal((await send(app, { 'x-to': 'b' })).status, 403)
      server.client.on('error', () => {})
      if (how === 'hangs') {
        process.kill(server.pid, 'SIGSTOP')
        t.teardown(() => process.kill(server.pid, 'SIGCONT'))
      } else {
        await server.kill()
        await until(async () => app.redis.status !== 'ready', 'the loss')
      }
      const answer = await send(app, { 'x-to': 'b' })
      t.equal(answer.status, status)
      if (status === 503) t.match(answer.body, { code: 'LISTS_UNAVAILABLE' })
      else t.equal(log.filter(line => line.includes('passed without the block list')).length, 1)
      await t.rejects(put(app, 'c', 'blocked'), { code: 'LISTS_UNAVAILABLE' })
    })
  }
}

t.test('a look-up waits for a connection that was cut, so no blocked recipient passes meanwhile', async t => {
  const { client, url } = await startRedis(t)
  const { app } = await open(t, { env: { REDIS_URL: url, STORE_TIMEOUT: '10000' }, routes: sends })
  await put(app, 'b', 'blocked')
  for (let i = 0; i < 2; i++) {
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal')
    await until(async () => app.redis.status !== 'ready', 'the cut')
    t.equal((await send(app, { 'x-to': 'b' })).status, 403)
  }
})

t.test('a look-up that is under way when the connection is cut is made again', async t => {
  const { pid, port } = await startRedis(t)
  const { url, ends } = await way(t, () => port)
  const { app } = await open(t, { env: { REDIS_URL: url, STORE_TIMEOUT: '10000' }, routes: sends })
  await put(app, 'b', 'blocked')
  const [client] = ends.at(-1) ?? []
  if (client === undefined) throw new Error('no connection')
  process.kill(pid, 'SIGSTOP')
  t.teardown(() => process.kill(pid, 'SIGCONT'))
  const asked = once(client, 'data')
  const answer = send(app, { 'x-to': 'b' })
  await asked
  client.destroy()
  await until(async () => app.redis.status !== 'ready', 'the cut')
  process.kill(pid, 'SIGCONT')
  t.equal((await answer).status, 403)
})

t.test(
  'after a failed look-up none waits for a connection until Redis has answered again',
  { timeout: 30_000 },
  async t => {
    const { client, url } = await startRedis(t)
    const own = new Redis(url, { enableOfflineQueue: false, retryStrategy: () => 200 })
    own.on('error', () => {})
    t.teardown(() => own.disconnect())
    await until(() => own.status === 'ready', 'a connection')
    const lists = new RedisLists(own, 'a fingerprint', 600_000)
    await client.set('list:{recipients}:entries', 'no hash')
    await t.rejects(lists.get(HASH), { code: 'LISTS_UNAVAILABLE' })
    own.disconnect()
    await until(() => own.status === 'end', 'the end')
    await t.rejects(lists.get(HASH), { code: 'LISTS_UNAVAILABLE' })
    await client.del('list:{recipients}:entries')
    await own.connect()
    for (let i = 0; i < 2; i++) {
      t.equal(await lists.get(HASH), null, 'Redis has answered, so the next cut is waited for')
      own.disconnect(true)
      await until(() => own.status !== 'ready', 'the cut')
    }
  }
)

t.test('a Redis that takes no writes is still read, also when ended entries are to be removed', async t => {
  const { client, clock } = await startRedis(t, { clock: true, startMs: START_MS })
  const lists = listsOn(client)
  await client.config('SET', 'min-replicas-to-write', '1')
  t.equal(await lists.get(HASH), null, 'also when the lists are new')
  await client.config('SET', 'min-replicas-to-write', '0')
  await lists.put(HASH, { standing: 'blocked' })
  await lists.put('ended', { standing: 'allowed', durationMs: 1_000 })
  clock.advance(1_000)
  await client.config('SET', 'min-replicas-to-write', '1')
  t.match(await lists.get(HASH), { standing: 'blocked' })
  t.equal(await lists.get('ended'), null)
  t.match(await lists.all({ limit: 10 }), { entries: [{ recipientHash: HASH }], next: null })
  await t.rejects(lists.put('c', { standing: 'blocked' }), { code: 'LISTS_UNAVAILABLE' })
  await client.config('SET', 'min-replicas-to-write', '0')
  await lists.get(HASH)
  t.equal(await client.hlen('list:{recipients}:entries'), 1)
})

t.test('the lists take 100,000 recipients', async t => {
  const lists = new MemoryLists(stillClock().clock)
  for (let i = 0; i < 100_000; i++) await lists.put(`${i}`, { standing: 'blocked' })
  await t.rejects(lists.put('one more', { standing: 'blocked' }), { code: 'LISTS_FULL' })
})

t.test('in memory, a look-up removes entries that ended a second ago or earlier', async t => {
  let now = 0
  const lists = new MemoryLists({ monotonic: () => now, wall: () => START_MS })
  const { held } = lists as unknown as { held: { size: number } }
  for (const [identity, durationMs] of [
    ['a', 1_000],
    ['b', 3_000],
    ['c', undefined]
  ] as const)
    await lists.put(identity, { standing: 'blocked', masked: identity, reason: 'complaint', durationMs })
  for (const [at, left] of [
    [1_999, 3],
    [2_000, 2],
    [3_999, 2],
    [4_000, 1],
    [1e12, 1]
  ] as const) {
    now = at
    await lists.get('nobody')
    t.equal(held.size, left, `at ${at}`)
  }
  await lists.put('d', { standing: 'blocked', durationMs: 1 })
  now += 1
  t.equal((await lists.all({ limit: 9 })).entries.length, 1)
  t.equal(held.size, 1, 'reading a list removes ended entries at once')
})

t.test('in memory, ended entries are removed a thousand at a time, and none of them is seen', async t => {
  const { clock, advance } = stillClock()
  const lists = new MemoryLists(clock, 1_501)
  const { held } = lists as unknown as { held: { size: number } }
  await lists.put('stays', { standing: 'blocked' })
  for (let i = 0; i < 1_500; i++) await lists.put(`${i}`, { standing: 'blocked', durationMs: 1_000 })
  advance(2_000)
  t.equal(await lists.get('0'), null)
  t.equal(held.size, 501)
  advance(999)
  t.equal(await lists.get('1'), null)
  t.equal(held.size, 501, 'the others stay until a second has passed')
  for (let i = 0; i < 1_000; i++) await lists.put(`new ${i}`, { standing: 'allowed' })
  t.equal(held.size, 1_501)
  await lists.put('newest', { standing: 'allowed' })
  t.equal(held.size, 1_002, 'ended entries make room for a new one')
  t.match(await lists.all({ limit: 1, standing: 'blocked' }), {
    entries: [{ recipientHash: 'stays' }],
    next: null
  })

  const many = new MemoryLists(clock)
  for (let i = 0; i < 1_500; i++) await many.put(`${i}`, { standing: 'blocked', durationMs: 1_000 })
  advance(1_000)
  t.same(await many.all({ limit: 9 }), { entries: [], next: null })
})

t.test('in memory, an entry that is found has time left, also while the clock moves', async t => {
  let now = 0
  const lists = new MemoryLists({ monotonic: () => now++, wall: () => START_MS })
  await lists.put(HASH, { standing: 'blocked', masked, durationMs: 10 })
  const left: unknown[] = []
  for (let found = await lists.get(HASH); found !== null; found = await lists.get(HASH))
    left.push(found.leftMs)
  t.same(left, [8, 6, 4, 2])
})

t.test('in memory, an entry has ended when either clock says so', async t => {
  for (const stopped of ['monotonic', 'wall']) {
    const { clock, advance } = stillClock()
    const lists = new MemoryLists({ ...clock, [stopped]: () => 0 }, 1)
    await lists.put(HASH, { standing: 'blocked', masked, durationMs: 10 })
    advance(9)
    t.match(await lists.get(HASH), { leftMs: 1 })
    advance(1)
    t.equal(await lists.get(HASH), null)
    await t.resolves(lists.put('another', { standing: 'blocked' }), `${stopped}: there is room again`)
  }
})

t.test('in memory, the time left of an entry is in whole milliseconds, too', async t => {
  let now = 0.25
  const lists = new MemoryLists({ monotonic: () => now, wall: () => START_MS })
  const placed = await lists.put(HASH, { standing: 'blocked', masked, durationMs: 10 })
  now = 10.125
  t.same(await lists.get(HASH), { ...placed, leftMs: 1 })
  now = 10.25
  t.equal(await lists.get(HASH), null)
})
