import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { Slot } from '../../../app/idempotency/answers.js'
import { MemoryAnswers } from '../../../app/idempotency/memory-answers.js'
import { namingOf } from '../../../app/idempotency/naming.js'
import { RedisAnswers } from '../../../app/idempotency/redis-answers.js'
import { gate } from '../../helper/gate.js'
import { startRedis } from '../../helper/redis.js'
import { stillClock } from '../still-clock.js'
import { DAY, LEASE, places, start } from './scene.js'

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('bounds: a scope gives up its own oldest answer, never what runs, never others', async t => {
      const place = await open(t)
      const answers = place.answers({ perScope: 3, max: 100, keepMs: DAY })
      const slot = (scope: string, key: string): Slot => ({ scope, key })
      const body = 'b'.repeat(22)
      const begin = (at: Slot, token = 'token') => answers.begin(at, body, token, LEASE)
      const [one, two, three, four, five] = ['1', '2', '3', '4', '5'].map(key =>
        slot('mine', key)
      ) as Slot[] & [Slot, Slot, Slot, Slot, Slot]
      const other = slot('theirs', '1')
      for (const each of [other, two]) {
        await begin(each)
        t.equal(await answers.finish(each, 'token', 'an answer'), true)
      }
      await begin(one)
      await begin(three)
      t.same(await begin(four), { is: 'begun' }, 'it takes the place of key 2, the only finished one')
      t.same(await begin(one), { is: 'running' })
      t.same(await begin(five), { is: 'full' })
      t.same(await begin(other), { is: 'finished', answer: 'an answer' })
      await answers.free(one, 'not its token')
      t.equal(await answers.finish(one, 'not its token', ''), false)
      t.equal(await answers.finish(slot('mine', 'never begun'), 'token', ''), false)
      await answers.free(slot('mine', 'never begun'), 'token')
      t.same(await begin(two), { is: 'full' })
      await answers.free(one, 'token')
      t.same(await begin(two), { is: 'begun' })
      place.advance(LEASE - 1)
      t.same(await begin(three), { is: 'running' })
      place.advance(1)
      t.equal(await answers.finish(four, 'token', 'too late'), false)
      t.same(await begin(three, 'another token'), { is: 'begun' })
      t.equal(await answers.finish(three, 'token', 'too late'), false)
      t.same(await begin(five), { is: 'begun' }, 'it takes the place of a key whose lease has ended')
      t.same(await begin(other), { is: 'finished', answer: 'an answer' })
    })

    await t.test('bounds: of several answers the oldest is given up', async t => {
      const place = await open(t)
      const answers = place.answers({ perScope: 3, max: 100, keepMs: DAY })
      const slot = (key: string): Slot => ({ scope: 'mine', key })
      const begin = (key: string) => answers.begin(slot(key), 'b'.repeat(22), 'token', LEASE)
      for (const key of ['2', '1', '3']) {
        await begin(key)
        await answers.finish(slot(key), 'token', key)
        place.advance(1)
      }
      t.same(await begin('4'), { is: 'begun' })
      for (const answer of ['1', '3']) t.same(await begin(answer), { is: 'finished', answer })
    })

    await t.test('bounds: a key whose lease has ended is given up before a kept answer', async t => {
      const place = await open(t)
      const answers = place.answers({ perScope: 2, max: 1_000, keepMs: DAY })
      const begin = (key: string) => answers.begin({ scope: 'mine', key }, 'b'.repeat(22), 'token', LEASE)
      await begin('finished')
      await answers.finish({ scope: 'mine', key: 'finished' }, 'token', 'an answer')
      await begin('lost')
      place.advance(LEASE + 1)
      t.same(await begin('next'), { is: 'begun' })
      t.same(await begin('finished'), { is: 'finished', answer: 'an answer' })
    })

    await t.test('bounds: the only answer is given up, however many requests run', async t => {
      const place = await open(t)
      const answers = place.answers({ perScope: 101, max: 1_000, keepMs: DAY })
      const body = 'b'.repeat(22)
      const begin = (key: string) => answers.begin({ scope: 'mine', key }, body, 'token', LEASE)
      await begin('finished')
      await answers.finish({ scope: 'mine', key: 'finished' }, 'token', 'an answer')
      for (let i = 1; i < 101; i++) await begin(`${i}`)
      t.same(await begin('next'), { is: 'begun' })
      t.same(await begin('another'), { is: 'full' })
    })
  })
}

t.test('memory is bounded over all scopes together', async t => {
  const place = await places.memory(t)
  const answers = place.answers({ perScope: 10, max: 2, keepMs: DAY })
  const begin = (scope: string) => answers.begin({ scope, key: 'key' }, 'body', 'token', LEASE)
  await begin('a')
  await begin('b')
  t.same(await begin('c'), { is: 'full' })
  await answers.finish({ scope: 'b', key: 'key' }, 'token', 'an answer')
  t.same(await begin('c'), { is: 'begun' })
  t.same(await begin('a'), { is: 'running' })
  t.same(await begin('b'), { is: 'full' })
  place.advance(LEASE)
  t.same(await begin('b'), { is: 'begun' })
})

t.test('in memory a key that is begun anew after its lease takes no second place', async t => {
  const place = await places.memory(t)
  const answers = place.answers({ perScope: 10, max: 3, keepMs: DAY })
  const begin = (scope: string) => answers.begin({ scope, key: 'key' }, 'body', 'token', LEASE)
  await begin('a')
  await answers.finish({ scope: 'a', key: 'key' }, 'token', 'an answer')
  await begin('b')
  place.advance(LEASE)
  t.same(await begin('b'), { is: 'begun' })
  t.same(await begin('c'), { is: 'begun' })
  t.same(await begin('a'), { is: 'finished', answer: 'an answer' })
})

t.test('in memory nothing is held of a scope whose keys are all free', async t => {
  const answers = new MemoryAnswers(stillClock().clock, { perScope: 10, max: 10, keepMs: DAY })
  const { scopes } = answers as unknown as { scopes: Map<string, unknown> }
  const slot = { scope: 'scope', key: 'key' }
  await answers.begin(slot, 'body', 'token', LEASE)
  t.equal(scopes.size, 1)
  await answers.free(slot, 'token')
  t.equal(scopes.size, 0)
})

t.test('in memory, ended answers are removed a thousand at a time, and none of them counts', async t => {
  const place = await places.memory(t)
  const answers = place.answers({ perScope: 2, max: 3_000, keepMs: DAY })
  const { finished } = answers as unknown as { finished: { size: number } }
  const begin = (scope: string, key: string) => answers.begin({ scope, key }, 'body', 'token', LEASE)
  const finish = (scope: string, key: string) => answers.finish({ scope, key }, 'token', 'an answer')
  for (let i = 0; i < 2_500; i++) {
    const scope = `${Math.floor(i / 2)}`
    await begin(scope, `${i}`)
    await finish(scope, `${i}`)
  }
  place.advance(DAY)
  t.same(await begin('1249', '2499'), { is: 'begun' })
  t.equal(finished.size, 1_499)
  t.equal(await finish('1249', '2499'), true)
  t.same(await begin('1249', 'next'), { is: 'begun' })
  t.same(
    await begin('1249', '2499'),
    { is: 'finished', answer: 'an answer' },
    'an ended answer was given up in its place'
  )
})

t.test('a network may have 1,000 keys, and all together in memory 10,000', async t => {
  for (const [name, open] of Object.entries(places)) {
    const { app } = await start(t, await open(t))
    const begin = (network: number, key: number) => {
      const at = { method: 'POST', routeOptions: { url: '/free' }, params: {}, ip: `192.0.2.${network}` }
      const headers = { 'idempotency-key': `${key}` }
      const request = { ...at, headers, body: {}, account: null, caller: null }
      return app.idempotent.call(app, request as never, { sent: false } as never)
    }
    const fill = (network: number) =>
      Promise.all(Array.from({ length: 1_000 }, (_, key) => begin(network, key)))
    await fill(1)
    await t.rejects(begin(1, 1_000), { code: 'IDEMPOTENCY_FULL' }, name)
    if (name === 'redis') continue
    for (let network = 2; network <= 10; network++) await fill(network)
    await t.rejects(begin(11, 0), { code: 'IDEMPOTENCY_FULL' }, name)
  }
})

t.test('while all keys are in use a further one is 503, and a request without one is served', async t => {
  const place = await places.memory(t)
  const { post, seen } = await start(t, place, { perScope: 1 })
  seen.wait = seen.onward.opened
  const first = post('/free', 'a-key')
  await seen.begun.opened
  t.match(await post('/free', 'b-key'), { status: 503, body: { code: 'IDEMPOTENCY_FULL' } })
  seen.onward.open()
  t.equal((await first).status, 202)
  t.equal((await post('/free', undefined)).status, 202)
})

t.test('what Redis keeps of keys and answers is not readable, and expires', async t => {
  const { url, client } = await startRedis(t)
  const place = { url, clock: stillClock().clock }
  const { post, seen } = await start(t, place)
  const ask = (key: string) =>
    post('/free', key, { to: '+8613800138000' }, { headers: { 'x-account': 'an-account' } })
  await ask('a-secret-key')
  seen.wait = seen.onward.opened
  seen.begun = gate()
  const running = ask('b-secret-key')
  await seen.begun.opened
  const keys = (await client.keys('*')).filter(key => key.startsWith('idempotency:'))
  t.equal(keys.length, 2)
  for (const key of keys) t.ok((await client.pttl(key)) > DAY - 60_000)
  const slots = keys.find(key => !key.endsWith(':ends')) as string
  const values = await client.hvals(slots)
  const held = JSON.stringify([keys, await client.hgetall(slots)])
  t.equal(
    new Set(values.map(value => value.slice(1, 23))).size,
    2,
    'it does not show that two bodies are the same'
  )
  for (const word of ['secret', 'account', '13800138000', 'message', '192.0.2.1']) t.notMatch(held, word)
  seen.onward.open()
  await running
})

t.test('an answer opens under its own key alone', async t => {
  const { url, client } = await startRedis(t)
  const { post } = await start(t, { url, clock: stillClock().clock })
  for (const key of ['a-key', 'b-key']) t.equal((await post('/free', key)).status, 202)
  const [slots = ''] = (await client.keys('idempotency:*')).filter(key => !key.endsWith(':ends'))
  const kept = Object.entries(await client.hgetall(slots)) as [[string, string], [string, string]]
  const [[one, first], [other, second]] = kept
  // As somebody could who may write to Redis: state and body stay, the answers change places.
  await client.hset(
    slots,
    one,
    first.slice(0, 23) + second.slice(23),
    other,
    second.slice(0, 23) + first.slice(23)
  )
  for (const key of ['a-key', 'b-key'])
    t.match(await post('/free', key), { status: 500, replayed: false, body: { code: 'INTERNAL' } })
})

t.test('an answer that is kept in memory is not readable', async t => {
  const { finish } = MemoryAnswers.prototype
  const finished = t.capture(MemoryAnswers.prototype, 'finish', finish)
  const { post } = await start(t, await places.memory(t))
  t.equal((await post('/free', 'a-key')).body.id, 'message 1')
  const [, , answer] = finished()[0]?.args ?? []
  t.match(answer, /^[\w-]+$/)
  for (const text of [answer, Buffer.from(`${answer}`, 'base64url')]) t.notMatch(`${text}`, 'message')
})

t.test('the key of a request that never ends expires in Redis', async t => {
  const { client } = await startRedis(t)
  const answers = new RedisAnswers(client, { perScope: 10, keepMs: DAY })
  await answers.begin({ scope: 'scope', key: 'key' }, 'body', 'token', LEASE)
  const keys = await client.keys('*')
  t.equal(keys.length, 2)
  for (const key of keys) t.ok((await client.pttl(key)) > 0, key)
})

t.test('an answer that is given up leaves nothing in Redis', async t => {
  const { client } = await startRedis(t)
  const answers = new RedisAnswers(client, { perScope: 1, keepMs: DAY })
  const slot = (key: string) => ({ scope: 'scope', key })
  const begin = (key: string) => answers.begin(slot(key), 'b'.repeat(22), 'token', LEASE)
  await begin('for another')
  await answers.finish(slot('for another'), 'token', 'an answer')
  t.same(await begin('by its holder'), { is: 'begun' })
  await answers.free(slot('by its holder'), 'token')
  t.same(await client.keys('*'), [])
})

t.test('a key that Redis has evicted in part takes no place', async t => {
  const { client } = await startRedis(t)
  const answers = new RedisAnswers(client, { perScope: 1, keepMs: DAY })
  const begin = (key: string) => answers.begin({ scope: 'scope', key }, 'b'.repeat(22), 'token', LEASE)
  await begin('lost')
  await client.del('idempotency:{scope}')
  t.same(await begin('next'), { is: 'begun' })
  await client.del('idempotency:{scope}:ends')
  t.same(await begin('next'), { is: 'begun' }, 'else the key would be in use for ever')
})

t.test('an expiry that was lost or shortened is set anew to that of the last kept answer', async t => {
  const { client } = await startRedis(t)
  const answers = new RedisAnswers(client, { perScope: 10, keepMs: DAY })
  const begin = (key: string) => answers.begin({ scope: 'scope', key }, 'b'.repeat(22), 'token', LEASE)
  await begin('kept')
  await answers.finish({ scope: 'scope', key: 'kept' }, 'token', 'an answer')
  const names = await client.keys('*')
  for (const change of [(name: string) => client.persist(name), (name: string) => client.expire(name, 60)]) {
    await Promise.all(names.map(change))
    await begin('failed')
    await answers.free({ scope: 'scope', key: 'failed' }, 'token')
    for (const name of names) {
      const left = await client.pttl(name)
      t.ok(left > DAY - 60_000 && left <= DAY, `${name}: ${left}`)
    }
  }
})

t.test('of many keys in use Redis looks at a hundred only', async t => {
  const { client, clock } = await startRedis(t, { clock: true })
  const answers = new RedisAnswers(client, { perScope: 300, keepMs: DAY })
  const slot = (key: string): Slot => ({ scope: 'scope', key })
  const begin = (key: string) => answers.begin(slot(key), 'b'.repeat(22), 'token', LEASE)
  const looks = async () => Number(/cmdstat_hget:calls=(\d+)/.exec(await client.info('commandstats'))?.[1])
  for (const key of ['older', 'newer']) {
    await begin(key)
    await answers.finish(slot(key), 'token', key)
    clock.advance(1)
  }
  for (let i = 2; i < 300; i++) await begin(`${i}`)
  for (const [key, is] of [
    ['next', 'begun'],
    ['last', 'begun'],
    ['another', 'full']
  ] as const) {
    await client.config('RESETSTAT')
    t.same(await begin(key), { is }, key)
    t.ok((await looks()) <= 102, `${key}: itself, a hundred, and an answer`)
    if (key === 'next')
      t.same(await begin('newer'), { is: 'finished', answer: 'newer' }, 'the older one went')
  }
})

t.test('the oldest answer is given up also after the clock was set back', async t => {
  const { client, clock } = await startRedis(t, { clock: true })
  const answers = new RedisAnswers(client, { perScope: 3, keepMs: DAY })
  const begin = (key: string) => answers.begin({ scope: 'scope', key }, 'b'.repeat(22), 'token', LEASE)
  const answer = async (key: string) => {
    t.same(await begin(key), { is: 'begun' })
    t.ok(await answers.finish({ scope: 'scope', key }, 'token', key))
    clock.advance(1)
  }
  for (const key of ['2', '1', '3']) await answer(key)
  clock.advance(-3_600_000)
  await answer('4')
  t.same(await begin('1'), { is: 'finished', answer: '1' }, 'key 2 was the oldest')
  await answer('5')
  for (const key of ['3', '4', '5']) t.same(await begin(key), { is: 'finished', answer: key })
  clock.advance(DAY)
  t.same(await begin('3'), { is: 'begun' }, 'no answer is kept longer than it should be')
})

t.test('another secret or network gives scope, key and body other names', async t => {
  const name = (secret: string, ip: string) => {
    const at = { method: 'POST', routeOptions: { url: '/free' }, params: {}, ip }
    const request = { ...at, body: {}, account: null, caller: null } as unknown as FastifyRequest
    return namingOf(secret)('a-key', request)
  }
  const one = name('one', '192.0.2.1')
  for (const other of [name('other', '192.0.2.1'), name('one', '192.0.2.2')]) {
    t.not(one.slot.scope, other.slot.scope)
    t.not(one.slot.key, other.slot.key)
    t.not(one.body, other.body)
  }
})
