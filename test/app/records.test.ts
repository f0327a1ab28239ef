import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { MemoryRecords } from '../../app/captcha/memory-records.js'
import { RETENTION_MS, type Records } from '../../app/captcha/records.js'
import { RedisRecords } from '../../app/captcha/redis-records.js'
import { startRedis } from '../helper/redis.js'
import { written } from '../helper/writes.js'
import { START_MS, stillClock } from './still-clock.js'

interface Place {
  records: Records
  advance(ms: number): void
}

const stores: Record<string, (t: Test) => Promise<Place>> = {
  async memory() {
    const { clock, advance } = stillClock()
    return { records: new MemoryRecords(clock), advance }
  },
  async redis(t) {
    const { client, clock } = await startRedis(t, { clock: true, startMs: START_MS })
    return { records: new RedisRecords(client), advance: ms => clock.advance(ms) }
  }
}

const terms = { lifeMs: 300_000, tries: 3 }
const name = () => randomBytes(16).toString('base64url')

for (const [store, open] of Object.entries(stores)) {
  t.test(store, async t => {
    const { records, advance } = await open(t)
    const put = async () => {
      const key = name()
      await records.put(key, 'sealed', terms)
      return key
    }

    await t.test('a record that was put is found, and no other', async t => {
      const key = await put()
      t.match(await records.get(key), {
        sealed: 'sealed',
        generation: 1,
        triesLeft: 3,
        lifeMs: 300_000,
        ended: '',
        sender: ''
      })
      t.equal(await records.get(name()), null)
    })

    await t.test('the right code verifies once', async t => {
      const key = await put()
      t.match(await records.check(key, 1), { verified: true, triesLeft: 3, tried: true })
      t.match(await records.check(key, 1), { verified: false, triesLeft: 0, tried: false })
      t.match(await records.get(key), { ended: 'verified' })
    })

    await t.test('the last wrong try ends the code', async t => {
      const key = await put()
      for (const triesLeft of [2, 1, 0]) {
        t.match(await records.check(key, 0), { verified: false, triesLeft, tried: true })
      }
      t.match(await records.check(key, 1), { verified: false, triesLeft: 0, tried: false })
      t.match(await records.get(key), { ended: 'failed', triesLeft: 0 })
    })

    await t.test('a code expires to the millisecond, and its record is forgotten later', async t => {
      const key = await put()
      advance(299_999)
      t.match(await records.get(key), { lifeMs: 1, ended: '' })
      advance(1)
      t.match(await records.check(key, 1), { verified: false, triesLeft: 0, tried: false })
      t.match(await records.get(key), { lifeMs: 0, ended: '', triesLeft: 3 })
      advance(RETENTION_MS - 300_001)
      t.ok(await records.get(key))
      // Redis lets a key live in the millisecond of its end.
      advance(2)
      t.equal(await records.get(key), null)
    })

    await t.test('after rotate the next generation alone is valid, with its own tries and life', async t => {
      const key = await put()
      await records.check(key, 0)
      advance(100_000)
      t.match(await records.get(key), { generation: 1, triesLeft: 2, lifeMs: 200_000 })
      t.equal(await records.rotate(key, terms, 'a'), 2)
      t.match(await records.get(key), { sealed: 'sealed', generation: 2, triesLeft: 3, lifeMs: 300_000 })
      t.match(await records.check(key, 1), { verified: false, triesLeft: 2, tried: true })
      t.match(await records.check(key, 2), { verified: true, triesLeft: 2, tried: true })
      t.equal(await records.rotate(key, terms, 'a'), null)
    })

    await t.test('the next generation is kept as long as the first', async t => {
      const key = await put()
      advance(RETENTION_MS - 1)
      await records.rotate(key, terms, 'a')
      advance(RETENTION_MS - 1)
      t.match(await records.get(key), { generation: 2 })
    })

    await t.test('restore brings a former generation back, unless the later one has ended', async t => {
      const key = await put()
      await records.check(key, 0)
      await records.rotate(key, terms, 'a')
      advance(1_000)
      await records.restore(key, 'a')
      t.match(await records.get(key), { generation: 1, triesLeft: 2, lifeMs: 299_000 })
      t.match(await records.check(key, 2), { verified: false, triesLeft: 1, tried: true })

      t.equal(await records.rotate(key, terms, 'b'), 3)
      t.match(
        await records.get(key),
        { generation: 3, made: 3 },
        'the number of a generation that was taken back is not used again'
      )
      await records.restore(key, 'b')
      t.match(
        await records.get(key),
        { generation: 1, made: 3, triesLeft: 1 },
        'a former generation comes back a second time'
      )
      await records.rotate(key, terms, 'c')
      await records.check(key, 4)
      await records.restore(key, 'c')
      t.match(await records.get(key), { generation: 4, ended: 'verified' })

      const failed = await put()
      for (let i = 0; i < 3; i++) await records.check(failed, 0)
      await records.rotate(failed, terms, 'c')
      await records.restore(failed, 'c')
      t.match(await records.get(failed), { ended: 'failed', sender: '' })
    })

    await t.test('of several rotations each can be taken back by itself, in any order', async t => {
      const orders = ['abc', 'acb', 'bac', 'bca', 'cab', 'cba']
      for (const order of orders) {
        const key = await put()
        await records.check(key, 0)
        for (const token of 'abc') await records.rotate(key, terms, token)
        for (const token of order) await records.restore(key, token)
        t.match(await records.get(key), { generation: 1, triesLeft: 2 }, order)
        await records.restore(key, 'a')
        t.match(await records.get(key), { generation: 1, made: 4 }, 'a rotation is taken back once')
      }
      for (const [order, generation] of Object.entries({ ab: 4, ba: 4, bc: 2, cb: 2, ac: 3, ca: 3 })) {
        const key = await put()
        for (const token of 'abc') await records.rotate(key, terms, token)
        for (const token of order) await records.restore(key, token)
        t.match(await records.get(key), { generation }, order)
      }
      const key = await put()
      for (let i = 0; i < 20; i++) await records.rotate(key, terms, `${i}`)
      await records.restore(key, '19')
      t.match(await records.get(key), { generation: 20 })
      for (let i = 18; i >= 0; i--) await records.restore(key, `${i}`)
      t.match(await records.get(key), { generation: 12 }, 'no more than nine rotations are remembered')
      const ended = await put()
      for (const token of 'ab') await records.rotate(ended, terms, token)
      await records.cancel(ended)
      for (const token of 'ba') await records.restore(ended, token)
      t.match(
        await records.get(ended),
        { generation: 3, ended: 'cancelled' },
        'nothing is taken back once the code was cancelled'
      )
    })

    await t.test(
      'a failed and an expired code can be followed by another, a cancelled one cannot',
      async t => {
        const failed = await put()
        for (let i = 0; i < 3; i++) await records.check(failed, 0)
        t.match(await records.get(failed), { ended: 'failed' })
        t.equal(await records.rotate(failed, terms, 'a'), 2)
        t.match(await records.get(failed), { ended: '', triesLeft: 3 })
        const cancelled = await put()
        t.equal(await records.cancel(cancelled), true)
        t.equal(await records.cancel(cancelled), false)
        t.equal(await records.rotate(cancelled, terms, 'a'), null)
        t.match(await records.check(cancelled, 1), { verified: false, triesLeft: 0, tried: false })
        const expired = await put()
        advance(300_000)
        t.match(await records.get(expired), { lifeMs: 0 })
        t.equal(await records.rotate(expired, terms, 'a'), 2)
        t.match(await records.check(expired, 2), { verified: true })
        const both = [await put(), await put()] as const
        for (let i = 0; i < 3; i++) await records.check(both[0], 0)
        advance(300_000)
        for (const key of both) {
          t.equal(await records.cancel(key), true)
          t.equal(
            await records.rotate(key, terms, 'a'),
            null,
            'a code cancelled after it failed or expired cannot be followed'
          )
        }
      }
    )

    await t.test('the sender is known from when it is noted until the next generation', async t => {
      const key = await put()
      await records.noteSent(key, 1, { sender: 'twilio', perhaps: '', receipt: '' })
      t.match(await records.get(key), { sender: 'twilio' })
      await records.rotate(key, terms, 'a')
      t.match(await records.get(key), { sender: '' })
      await records.restore(key, 'a')
      t.match(await records.get(key), { sender: 'twilio' })
      await records.noteSent(key, 1, { sender: '', perhaps: '', receipt: '' })
      t.match(await records.get(key), { sender: '' })
      await records.rotate(key, terms, 'b')
      await records.noteSent(key, 1, { sender: 'twilio', perhaps: '', receipt: '' })
      t.match(await records.get(key), { sender: '' }, 'a note about a former generation changes nothing now')
      await records.rotate(key, terms, 'c')
      await records.noteSent(key, 3, { sender: 'aliyun', perhaps: '', receipt: '' })
      await records.restore(key, 'c')
      t.match(await records.get(key), { generation: 3, sender: 'aliyun' }, 'but once that is valid again')
      await records.restore(key, 'b')
      t.match(await records.get(key), { generation: 1, sender: 'twilio' })
      await records.rotate(key, terms, 'd')
      await records.rotate(key, terms, 'e')
      await records.noteSent(key, 5, { sender: 'aliyun', perhaps: '', receipt: '' })
      await records.noteSent(key, 1, { sender: '', perhaps: '', receipt: '' })
      for (const token of 'de') await records.restore(key, token)
      t.match(await records.get(key), { generation: 1, sender: '' })
    })

    await t.test('who may have taken a message is known, whatever becomes of the generations', async t => {
      const key = await put()
      t.match(await records.get(key), { perhaps: '' })
      await records.noteSent(key, 1, { sender: '', perhaps: 'twilio', receipt: '' })
      t.match(await records.get(key), { sender: '', perhaps: 'twilio' })
      await records.rotate(key, terms, 'a')
      t.match(await records.get(key), { generation: 2, perhaps: 'twilio' })
      await records.noteSent(key, 2, { sender: '', perhaps: 'aliyun', receipt: '' })
      await records.restore(key, 'a')
      t.match(await records.get(key), { generation: 1, perhaps: 'aliyun' })
      await records.noteSent(key, 1, { sender: 'twilio', perhaps: '', receipt: '' })
      t.match(await records.get(key), { sender: 'twilio', perhaps: 'aliyun' })
      t.match(await records.reuse(key), { sender: 'twilio', perhaps: 'aliyun' })
    })

    await t.test('the right code tells the receipts of the messages of its id, nine at most', async t => {
      const key = await put()
      const note = (generation: number, receipt: string) =>
        records.noteSent(key, generation, { sender: 'twilio', perhaps: '', receipt })
      t.equal(await note(1, 'first'), false)
      await note(1, '')
      await records.rotate(key, terms, 'a')
      await note(2, 'second')
      await note(1, 'late')
      t.match(await records.check(key, 1), { verified: false, receipts: [] })
      await records.restore(key, 'a')
      t.same((await records.check(key, 1)).receipts, ['first', 'second', 'late'])
      t.match(await records.check(key, 1), { tried: false, receipts: [] })

      const none = await put()
      t.same((await records.check(none, 1)).receipts, [])
      t.equal(
        await records.noteSent(none, 1, { sender: '', perhaps: '', receipt: 'later' }),
        true,
        'verified before'
      )
      const often = await put()
      for (let i = 0; i < 12; i++)
        await records.noteSent(often, 1, { sender: '', perhaps: '', receipt: `${i}` })
      t.same((await records.check(often, 1)).receipts, ['3', '4', '5', '6', '7', '8', '9', '10', '11'])
    })

    await t.test('reuse gives out the same code as long as it may be used', async t => {
      const [expiring, failed] = [await put(), await put()]
      advance(299_999)
      t.match(await records.reuse(expiring), { generation: 1, made: 1, lifeMs: 1 })
      t.match(await records.get(expiring), { generation: 1, made: 2, lifeMs: 1 })
      for (let i = 0; i < 3; i++) await records.check(failed, 0)
      t.equal(await records.reuse(failed), null)
      advance(1)
      t.equal(await records.reuse(expiring), null)
    })

    await t.test('a resend is not taken back once its code was given out again', async t => {
      const key = await put()
      await records.rotate(key, terms, 'a')
      await records.rotate(key, terms, 'b')
      t.match(await records.reuse(key), { generation: 3 })
      for (const token of 'ab') await records.restore(key, token)
      t.match(await records.get(key), { generation: 3, made: 4, ended: '' })
      await records.rotate(key, terms, 'c')
      await records.restore(key, 'c')
      t.match(await records.get(key), { generation: 3 }, 'a later resend can be taken back')
    })

    await t.test('a record that is dropped is gone', async t => {
      const key = await put()
      await records.drop(key)
      t.equal(await records.get(key), null)
      t.equal(await records.noteSent(key, 1, { sender: '', perhaps: '', receipt: 'a' }), false)
      t.equal(await records.get(key), null)
      t.equal(await records.rotate(key, terms, 'a'), null)
    })

    await t.test('a record that was rotated or reused is not dropped', async t => {
      const [made, given] = [await put(), await put()]
      await records.rotate(made, terms, 'a')
      await records.reuse(given)
      for (const key of [made, given]) {
        await records.drop(key)
        t.ok(await records.get(key))
      }
    })

    await t.test('20 right codes at once: one verifies; 20 wrong ones: three count', async t => {
      const key = await put()
      const all = await Promise.all(Array.from({ length: 20 }, () => records.check(key, 1)))
      t.equal(all.filter(({ verified }) => verified).length, 1)
      const other = await put()
      const wrong = await Promise.all(Array.from({ length: 20 }, () => records.check(other, 0)))
      t.same(wrong.map(({ triesLeft }) => triesLeft).filter(Boolean), [2, 1])
    })
  })
}

t.test('in memory, records past their retention are removed when another is looked up', async t => {
  let now = 0
  const records = new MemoryRecords({ monotonic: () => now, wall: () => now })
  const { held } = records as unknown as { held: Map<string, unknown> }
  await records.put('a', 'sealed', { lifeMs: 1, tries: 1 })
  for (const [at, left] of [
    [RETENTION_MS - 1, 1],
    [RETENTION_MS, 0]
  ] as const) {
    now = at
    await records.get('nobody')
    t.equal(held.size, left, `at ${at}`)
  }
  for (let i = 0; i < 1_500; i++) await records.put(`${i}`, 'sealed', terms)
  now += RETENTION_MS
  t.equal(await records.get('1499'), null)
  t.equal(held.size, 500, 'no more than a thousand are removed at a time')
  await records.put('a', 'sealed', terms)
  t.equal(held.size, 1)
})

t.test('in memory a code expires by either clock, as a machine may be suspended', async t => {
  for (const stopped of ['monotonic', 'wall']) {
    const { clock, advance } = stillClock()
    const records = new MemoryRecords({ ...clock, [stopped]: () => 0 })
    await records.put('a', 'sealed', terms)
    advance(terms.lifeMs - 1)
    t.match(await records.get('a'), { lifeMs: 1 })
    advance(1)
    t.match(await records.check('a', 1), { verified: false })
  }
})

t.test('full memory refuses a new code rather than forget another one', async t => {
  let now = 0
  const records = new MemoryRecords({ monotonic: () => now, wall: () => now }, 2)
  await records.put('a', 'sealed', terms)
  await records.put('b', 'sealed', terms)
  await t.rejects(records.put('c', 'sealed', terms), { code: 'CODES_FULL', statusCode: 503 })
  t.ok(await records.get('a'))
  now = 1
  await records.rotate('a', terms, 'a')
  now = RETENTION_MS
  await records.put('c', 'sealed', terms)
  t.match([await records.get('a'), await records.get('b')], [{ generation: 2 }, null])
})

t.test('noting the sender of an unknown code leaves nothing in Redis', async t => {
  const { client } = await startRedis(t)
  await new RedisRecords(client).noteSent('a', 1, { sender: 'twilio', perhaps: '', receipt: 'a' })
  t.same(await client.keys('*'), [])
})

/** Records, and a function that takes back the first try of a key as if its answer was lost. */
async function tried(t: Test) {
  const { client } = await startRedis(t)
  const records = new RedisRecords(client)
  const tries: string[] = []
  const commands = client as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>
  const { 'captcha.check': check, 'captcha.uncheck': uncheck } = commands
  commands['captcha.check'] = (...args) => {
    tries.push(args[3] as string)
    return Reflect.apply(check as () => Promise<unknown>, client, args)
  }
  const key = name()
  await records.put(key, 'sealed', terms)
  t.match(await records.check(key, 1), { verified: true })
  return { client, records, key, takeBack: () => uncheck?.call(client, 1, `captcha:{${key}}`, tries[0]) }
}

t.test('a try that is taken back twice does not revive a code that has ended since', async t => {
  const { client, records, key, takeBack } = await tried(t)
  await takeBack()
  const writes = written(client)
  const later = async (each: string) => {
    for (let i = 0; i < 3; i++) await null
    return records.get(each)
  }
  await Promise.all([records.get(key), later(name()), later(name())])
  t.equal(writes.count, 1, 'commands of one turn leave in one write')
  t.match(await records.get(key), { ended: '' })
  for (let i = 0; i < 3; i++) await records.check(key, 0)
  await takeBack()
  t.match(await records.get(key), { ended: 'failed' })
})

t.test('a try is not taken back after a cancel was told that the code had ended', async t => {
  const { records, key, takeBack } = await tried(t)
  t.equal(await records.cancel(key), false)
  await takeBack()
  t.match(await records.get(key), { ended: 'verified' })
})

t.test('on a Redis that is full a try and a resend are taken back, too', async t => {
  const { client, records, key, takeBack } = await tried(t)
  const other = name()
  await records.put(other, 'sealed', terms)
  for (const token of 'ab') await records.rotate(other, terms, token)
  await client.config('SET', 'maxmemory', '1')
  await takeBack()
  t.match(await records.get(key), { ended: '' })
  await records.noteSent(other, 2, { sender: 'twilio', perhaps: '', receipt: '' })
  await records.restore(other, 'b')
  t.match(await records.get(other), { generation: 2, sender: 'twilio' }, 'its message was taken meanwhile')
  await records.restore(other, 'a')
  t.match(await records.get(other), { generation: 1, made: 3 })
  t.ok((await client.pttl(`captcha:{${other}}`)) > 0)
  await t.rejects(records.rotate(other, terms, 'c'), { code: 'CODES_UNAVAILABLE' })
})

t.test('on a Redis that is full a code is given out again', async t => {
  const { client } = await startRedis(t)
  const records = new RedisRecords(client)
  const key = name()
  await records.put(key, 'sealed', terms)
  await client.config('SET', 'maxmemory', '1')
  t.match(await records.reuse(key), { generation: 1, made: 1 })
  t.match(await records.get(key), { made: 2 })
})
