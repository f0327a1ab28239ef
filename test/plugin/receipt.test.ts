import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { errors, limitPlugin, type Rule } from '../../plugin/index.js'
import { Receipts } from '../../plugin/store/receipts.js'
import { seeded } from '../contract/history.js'
import { root } from '../docs/blocks.js'
import { appOf, open } from '../helper/face.js'
import { moduleOf } from '../helper/module.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { DAY, type Place, places } from './settlement/places.js'

const PHONE = '13800138000'
const key = { phone: 'body.phone' } as const
const limits = [{ max: 3, window: '60s' }]
const mobile: Rule = { name: 'mobile', key, limits: [...limits, { max: 9, per: 'day' }] }
const recipients: Rule = { name: 'recipients', key: 'all', distinct: key, limits }
const watched: Rule = { name: 'watched', key, mode: 'observe', limits }
const wrong: Rule = { name: 'wrong', key, counts: 'failures', limits }
const flight: Rule = { name: 'flight', key, lock: '30s' }
const flood: Rule = { name: 'flood', key: 'ip', counts: 'attempts', limits: [{ max: 99, window: '60s' }] }
const rules = [mobile, recipients, watched, wrong, flight, flood]
const RECEIPT = 'FST_SEND_LIMIT_RECEIPT'
const UNAVAILABLE = 'FST_SEND_LIMIT_STORE_UNAVAILABLE'
const NONE =
  /^the receipt is none that this version of the plugin makes: pass the text as receipt\(\) gave it$/

let opened = 0

/** An app with a route that answers its receipt, and an app that refunds: on Redis one without any rules. */
async function start(t: Test, place: Place, given: Rule[] = rules) {
  const prefix = `receipt${opened++}:`
  const { app, used } = await place.open(t, given, { prefix })
  const worker = place.store === 'memory' ? app : (await place.open(t, [], { prefix })).app
  app.post<{ Body: { status: number; keep?: boolean } }>(
    '/',
    { config: { limit: given.map(({ name }) => name) } },
    async ({ body }, reply) => {
      const receipt = reply.limit?.receipt()
      if (body.keep) reply.limit?.keep()
      return reply.code(body.status).send({ receipt, again: reply.limit?.receipt() })
    }
  )
  await app.ready()
  const ask = (status: number, more: object = {}) => {
    // No two requests come within 10 µs.
    place.advance(1)
    return app.inject({ method: 'POST', url: '/', payload: { phone: PHONE, status, ...more } })
  }
  const counted = () =>
    used({ mobile: PHONE, recipients: ['all', '13800138009'], watched: PHONE, wrong: PHONE })
  return { app, worker, used, ask, counted }
}

for (const place of await places(t)) {
  t.test(`${place.store}: a receipt gives back later what a request reserved and kept, once`, async t => {
    const { app, worker, ask, counted, used } = await start(t, place)
    const { receipt, again } = (await ask(202)).json()
    t.same(await counted(), [1, 1, 1, 1, 0])
    const keys = { mobile: PHONE, recipients: ['all', PHONE], flight: PHONE, watched: PHONE }
    const held = await app.limit.reserve(keys)
    t.same(await counted(), [2, 2, 1, 2, 0])
    for (const told of [receipt, receipt, again]) {
      await worker.limit.refund(told)
      t.same(
        await counted(),
        [1, 1, 1, 1, 0],
        'exactly its slots; the recipient still counts from the other send'
      )
    }
    t.same(
      (await app.limit.peek({ flight: PHONE })).refusal,
      'in-flight',
      'a receipt does not release a lock'
    )
    t.same(await used({ flood: '127.0.0.1' }), [1], 'a receipt does not refund an attempt')
    held.end()
    await worker.limit.refund(held.receipt())
    t.same(await counted(), [0, 0, 0, 0, 0], 'a receipt of reserve is good after its end')
  })

  t.test(`${place.store}: a receipt changes nothing after the handler's end has refunded`, async t => {
    const { app, worker, ask, counted } = await start(t, place)
    const { receipt } = (await ask(502)).json()
    t.same(await counted(), [0, 0, 0, 0, 0])
    await ask(202)
    await worker.limit.refund(receipt)
    t.same(await counted(), [1, 1, 1, 1, 0])
    const { receipt: kept } = (await ask(502, { keep: true })).json()
    t.same(await counted(), [2, 2, 1, 2, 1], 'what was kept counts')
    await worker.limit.refund(kept)
    t.same(await counted(), [1, 1, 1, 1, 0])
    const { receipt: failed } = (await ask(404)).json()
    t.same(await counted(), [1, 1, 1, 1, 1])
    await worker.limit.refund(failed)
    t.same(await counted(), [1, 1, 1, 1, 0], 'a receipt refunds failures, as refund() does')
    const decision = await app.limit.reserve({ mobile: PHONE })
    const early = decision.receipt()
    await worker.limit.refund(early)
    await decision.refund()
    t.same(await counted(), [1, 1, 1, 1, 0], 'a receipt used before refund() gives back the slot once')
  })

  t.test(`${place.store}: a decision of run has a receipt as well`, async t => {
    const { app, worker, counted } = await start(t, place)
    const receipt = await app.limit.run({ mobile: PHONE }, decision => decision.receipt())
    t.same(await counted(), [1, 1, 0, 0, 0])
    await worker.limit.refund(receipt)
    t.same(await counted(), [0, 0, 0, 0, 0])
  })

  t.test(`${place.store}: a receipt of named rules gives back their slots alone`, async t => {
    const { app, worker, counted } = await start(t, place)
    const keys = { mobile: PHONE, recipients: ['all', PHONE], wrong: PHONE, flight: PHONE }
    const decision = await app.limit.reserve(keys)
    decision.end()
    t.same(await counted(), [1, 1, 1, 0, 1])
    await worker.limit.refund(decision.receipt('flight'))
    await worker.limit.refund(decision.receipt('watched'))
    t.same(await counted(), [1, 1, 1, 0, 1], 'nothing of a lock, nor of a rule that did not apply')
    await worker.limit.refund(decision.receipt('mobile', 'wrong'))
    t.same(await counted(), [0, 0, 1, 0, 0], 'all limits of both rules')
    t.throws(() => decision.receipt('mobile', 'mobil'), {
      code: 'FST_SEND_LIMIT_RULE_UNKNOWN',
      message: `receipt: there is no rule named "mobil"; known: ${rules.map(({ name }) => name).join(', ')}`
    })
  })

  t.test(`${place.store}: a receipt is good whatever the rules are by now`, async t => {
    const { app, worker } = await place
      .open(t, [mobile], { prefix: `replaced${opened++}:` })
      .then(({ app }) => ({ app, worker: app }))
    const free = async () => (await app.limit.peek({ mobile: PHONE })).rules[0]?.limits[0]?.remaining
    const sent = async () => {
      const decision = await app.limit.reserve({ mobile: PHONE })
      decision.keep()
      return decision
    }
    const decisions = [await sent(), await sent(), await sent()] as const
    const receipts = decisions.map(decision => decision.receipt())
    t.equal(await free(), 0)
    app.limit.replace([])
    await worker.limit.refund(decisions[0].receipt('mobile'))
    app.limit.replace([mobile])
    t.equal(await free(), 1, 'while its rule was gone')
    app.limit.replace([{ ...mobile, key: { value: 'body.phone' } }])
    await worker.limit.refund(receipts[1] ?? '')
    app.limit.replace([mobile])
    t.equal(await free(), 2, 'while its rule counted others')
    app.limit.replace([{ name: 'mobile', key, limits: [{ max: 5, window: '1h' }] }])
    await worker.limit.refund(receipts[2] ?? '')
    t.equal(await free(), 5, 'under other limits')
  })

  t.test(
    `${place.store}: a receipt of a calendar period that is over changes nothing in the next`,
    async t => {
      const daily: Rule = { name: 'mobile', key, limits: [{ max: 9, per: 'day' }] }
      const { app, worker, used } = await start(t, place, [daily])
      const sent = async () => {
        const decision = await app.limit.reserve({ mobile: PHONE })
        decision.keep()
        return decision.receipt()
      }
      const [first, second] = [await sent(), await sent()]
      await worker.limit.refund(first)
      t.same(await used({ mobile: PHONE }), [1])
      place.advance(DAY)
      await sent()
      await worker.limit.refund(second)
      await worker.limit.refund(first)
      t.same(await used({ mobile: PHONE }), [1], 'nothing of the next day')
    }
  )

  t.test(
    `${place.store}: after a refund in a log of many months, the other stamps keep their age`,
    async t => {
      const rare: Rule = { name: 'mobile', key, limits: [{ max: 3, window: '200d' }] }
      const { app, worker, used } = await start(t, place, [rare])
      const send = () => app.limit.reserve({ mobile: PHONE })
      ;(await send()).keep()
      place.advance(150 * DAY)
      const failed = await send()
      ;(await send()).keep()
      await worker.limit.refund(failed.receipt())
      place.advance(50 * DAY)
      t.same(await used({ mobile: PHONE }), [1], 'the first send has left the window')
    }
  )

  t.test(`${place.store}: a receipt of a decision that reserved nothing gives nothing back`, async t => {
    const { app, worker, used } = await start(t, place, [
      { ...mobile, limits: [{ max: 1, window: '60s' }], allow: ['13800138001'] },
      flight
    ])
    const free = await app.limit.reserve({ mobile: '13800138001' })
    ;(await app.limit.reserve({ mobile: PHONE })).end()
    const refused = await app.limit.reserve({ mobile: PHONE })
    const locked = await app.limit.reserve({ flight: PHONE })
    t.same([free.allowed, refused.allowed, locked.allowed], [true, false, true])
    for (const decision of [free, refused, locked]) await worker.limit.refund(decision.receipt())
    t.same(await used({ mobile: PHONE }), [1])
    t.equal((await app.limit.peek({ flight: PHONE })).allowed, false, 'the lock is still held')
    locked.end()
  })

  t.test(`${place.store}: altered receipts are rejected and change nothing`, async t => {
    const { worker, ask, counted } = await start(t, place)
    const { receipt } = (await ask(202)).json() as { receipt: string }
    const other = fc.constantFrom(...'AZaz09-_+/= \0é')
    const somewhere = fc.nat(receipt.length - 1)
    const altered = fc.oneof(
      fc.tuple(somewhere, other).map(([at, by]) => receipt.slice(0, at) + by + receipt.slice(at + 1)),
      fc.tuple(somewhere, other).map(([at, by]) => receipt.slice(0, at) + by + receipt.slice(at)),
      somewhere.map(length => receipt.slice(0, length)),
      other.map(more => receipt + more),
      fc.string({ unit: 'binary', maxLength: 200 }),
      fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes).toString('base64url')),
      // With a correct head.
      fc
        .uint8Array({ minLength: 29, maxLength: 200 })
        .map(bytes => Buffer.concat([Buffer.from(receipt, 'base64url').subarray(0, 7), bytes]))
        .map(bytes => bytes.toString('base64url')),
      fc.anything().map(value => value as string)
    )
    await fc.assert(
      fc.asyncProperty(altered, async text => {
        if (text === receipt) return
        const error = await worker.limit.refund(text).catch(error => error)
        if (error?.code !== RECEIPT) throw new Error(`${text} gave ${error}`)
      }),
      seeded(t, 1_000)
    )
    t.same(await counted(), [1, 1, 1, 1, 0])
    await worker.limit.refund(receipt)
    t.same(await counted(), [0, 0, 0, 0, 0])
  })

  t.test(`${place.store}: the error says what is wrong with a receipt`, async t => {
    const { worker, ask } = await start(t, place)
    const { receipt } = (await ask(202)).json() as { receipt: string }
    const says = async (text: unknown, message: RegExp) =>
      t.rejects(worker.limit.refund(text as string), { code: RECEIPT, statusCode: 400, message })
    const short = receipt.slice(0, 16)
    for (const none of [undefined, null, 1, {}, '', 'receipt', short, 'A'.repeat(1e6)]) await says(none, NONE)
    const others = Buffer.from(receipt, 'base64url')
    others.writeUInt8(others.readUInt8() - 1)
    await says(others.toString('base64url'), NONE)
    const last = receipt.at(-5) === 'A' ? 'B' : 'A'
    await says(receipt.slice(0, -5) + last + receipt.slice(-4), /^the receipt was altered or cut short/)
    await says(`${receipt} `, /^the receipt was altered or cut short/)
    for (let cut = 1; cut < 9; cut++)
      await says(receipt.slice(0, -cut), /^the receipt was altered or cut short on its way$/)
    t.ok(await worker.limit.refund('x').catch(error => error instanceof errors.ReceiptError))
  })
}

t.test('a receipt of the memory store is good in its own app alone, and reveals nothing', async t => {
  const secret = 'the same 16 characters'
  const content: Rule = { name: 'content', key: { digest: ['body.text'] }, limits }
  const start = () => open(t, { rules: [mobile, content], secret })
  const [{ app }, { app: other }] = [await start(), await start()]
  const decision = await app.limit.reserve({ mobile: PHONE, content: [['hello '.repeat(10_000)]] })
  const receipt = decision.receipt()
  t.notMatch(Buffer.from(receipt, 'base64url').toString('latin1'), /138|hello|mobile/)
  t.ok(receipt.length < 500, `${receipt.length} characters, however long the content`)
  t.not(decision.receipt(), receipt, 'no two receipts are alike')
  await t.rejects(other.limit.refund(receipt), {
    code: RECEIPT,
    message:
      /^the receipt was made by another app, or before a restart: what memory counts is given back there alone$/
  })
  await app.limit.refund(receipt)
  const { rules } = await app.limit.peek({ mobile: PHONE, content: [['hello '.repeat(10_000)]] })
  t.same(
    rules.flatMap(({ limits }) => limits.map(({ max, remaining }) => max - remaining)),
    [0, 0, 0],
    'the slots of a long content are refunded as well'
  )
})

t.test('a receipt of Redis is good only in apps with the same secret and prefix', async t => {
  const { url, client: witness } = await startRedis(t)
  const join = async (options: { secret?: string; prefix?: string }, keyPrefix?: string) => {
    const client = new Redis(url, { ...(keyPrefix && { keyPrefix }) })
    const app = appOf(t, {}, client)
    await app.register(limitPlugin, { client, secret: '0123456789abcdef', rules, ...options })
    return app
  }
  const app = await join({})
  const receipt = (await app.limit.reserve({ mobile: PHONE })).receipt()
  t.notMatch(Buffer.from(receipt, 'base64url').toString('latin1'), /mobile/)
  const foreign = {
    code: RECEIPT,
    message: /^the receipt was made under another secret or prefix, or by an app without/
  }
  await t.rejects((await join({ prefix: 'other:'.repeat(500) })).limit.refund(receipt), foreign)
  await t.rejects((await join({}, 'other:')).limit.refund(receipt), foreign, "the client's prefix")
  const stranger = await join({ secret: 'another 16 characters', prefix: 'strange:' })
  await t.rejects(stranger.limit.refund(receipt), foreign)
  await t.rejects((await open(t, { rules })).app.limit.refund(receipt), { code: RECEIPT }, 'memory')
  await t.rejects(app.limit.refund((await stranger.limit.reserve({ mobile: PHONE })).receipt()), foreign)
  t.equal((await witness.keys('sl:{*')).length, 2)
  await (await join({ prefix: ':' }, 'sl')).limit.refund(receipt)
  t.equal(await witness.exists('sl:secret'), 1)
  const { rules: left } = await app.limit.peek({ mobile: PHONE })
  t.match(
    left,
    [{ limits: [{ remaining: 3 }, { remaining: 9 }] }],
    'prefixes that give the same keys are the same'
  )
})

t.test('a receipt of another secret or scope is no good under the head of one that is', t => {
  const options = { secret: '0123456789abcdef', scope: 'sl:', foreign: 'is foreign' }
  const own = new Receipts(options)
  const bytesOf = (receipts: Receipts) => Buffer.from(receipts.make([]), 'base64url')
  const headed = (receipts: Receipts) =>
    Buffer.concat([bytesOf(own).subarray(0, 7), bytesOf(receipts).subarray(7)]).toString('base64url')
  t.same(own.open(headed(new Receipts(options)), Number), [])
  for (const other of [{ secret: 'another 16 characters' }, { scope: 'other:' }])
    t.throws(() => own.open(headed(new Receipts({ ...options, ...other })), Number), {
      code: RECEIPT,
      message: /^the receipt was altered/
    })
  t.end()
})

t.test('another process, without rules, refunds by a receipt', async t => {
  const { url } = await startRedis(t)
  const client = new Redis(url)
  const app = appOf(t, {}, client)
  await app.register(limitPlugin, { client, secret: '0123456789abcdef', rules })
  const decision = await app.limit.reserve({ mobile: PHONE, recipients: ['all', PHONE] })
  decision.keep()
  const script = `
    import Fastify from 'fastify'
    import { Redis } from 'ioredis'
    const { default: limitPlugin } = await import(${JSON.stringify(moduleOf('plugin/index.ts').href)})
    const client = new Redis(process.env.URL)
    const app = Fastify()
    await app.register(limitPlugin, { client, secret: '0123456789abcdef' })
    await app.limit.refund(process.env.RECEIPT)
    await app.close()
    client.disconnect()`
  const child = spawn(process.execPath, [...process.execArgv, '--input-type=module', '--eval', script], {
    cwd: fileURLToPath(root),
    env: { ...process.env, URL: url, RECEIPT: decision.receipt() },
    stdio: ['ignore', 'ignore', 'inherit']
  })
  t.same(await once(child, 'exit'), [0, null])
  const { rules: left } = await app.limit.peek({ mobile: PHONE, recipients: ['all', PHONE] })
  t.match(left, [{ limits: [{ remaining: 3 }, { remaining: 9 }] }, { limits: [{ remaining: 3 }] }])
})

t.test('a refund by receipt rejects in time while Redis hangs, and may be made again', async t => {
  const server = await startRedis(t)
  const client = new Redis(server.url)
  const app = appOf(t, {}, client)
  const once: Rule = { name: 'mobile', key, limits: [{ max: 1, window: '1h' }] }
  const shared = { client, secret: '0123456789abcdef', rules: [once] }
  await app.register(limitPlugin, { ...shared, timeout: 300, refusalCache: '1m' })
  await app.ready()
  const sent = await app.limit.reserve({ mobile: PHONE })
  sent.keep()
  t.match(await app.limit.reserve({ mobile: PHONE }), { allowed: false, store: 'redis' })
  t.match(await app.limit.reserve({ mobile: PHONE }), { allowed: false, store: 'cache' })

  process.kill(server.pid, 'SIGSTOP')
  try {
    await t.rejects(app.limit.refund(sent.receipt()), { code: UNAVAILABLE, statusCode: 503 })
    const outage = await app.limit.reserve({ mobile: '13800138001' })
    t.match(outage, { allowed: true, store: 'memory' })
    outage.keep()
    await app.limit.refund(outage.receipt())
    t.match(
      await app.limit.reserve({ mobile: '13800138001' }),
      { allowed: false, store: 'memory' },
      'the slot in the stand-in memory stays counted: no other process could give it back'
    )
  } finally {
    process.kill(server.pid, 'SIGCONT')
  }
  await until(
    () =>
      app.limit.refund(sent.receipt()).then(
        () => true,
        () => false
      ),
    'a refund'
  )
  await until(async () => {
    const next = await app.limit.reserve({ mobile: PHONE })
    return next.allowed && next.store === 'redis'
  }, 'a send that Redis admits, since the cache has heard of the refund')
})

t.test('with the refusal cache, Redis is asked again at once after a refund by receipt', async t => {
  const { client } = await startRedis(t)
  const app = appOf(t)
  const once: Rule = { name: 'mobile', key, limits: [{ max: 1, window: '1h' }] }
  const rules = [{ ...once, name: 'mob' }, recipients, once]
  const options = { client, secret: '0123456789abcdef', refusalCache: '1m', rules }
  await app.register(limitPlugin, { ...options, timeout: '20s' })
  const sent = await app.limit.reserve({ mobile: PHONE })
  await app.limit.reserve({ mobile: PHONE })
  t.match(await app.limit.reserve({ mobile: PHONE }), { allowed: false, store: 'cache' })
  await app.limit.refund(sent.receipt())
  t.match(await app.limit.reserve({ mobile: PHONE }), { allowed: true, store: 'redis' })
})

t.test('one receipt of moderate length holds the slots of every rule', async t => {
  const { app } = await open(t, { rules })
  const all = await app.limit.reserve({ mobile: PHONE, recipients: ['all', PHONE], watched: PHONE })
  const none = await app.limit.reserve({})
  t.comment(`${all.receipt().length} characters of four slots, ${none.receipt().length} of none`)
  t.ok(all.receipt().length < 450)
  t.match(all.receipt(), /^[\w-]+$/, 'it can be part of a URL')
})

t.test('a receipt of any number of slots, with keys of any length, is good', async t => {
  const many = Array.from({ length: 200 }, (_, i) => ({
    name: `${'many'.repeat(15)}${i}`,
    key: { value: 'body.to' },
    limits: [{ max: 1, window: '1h' }]
  }))
  const { app } = await open(t, { rules: many })
  const keys = Object.fromEntries(many.map(({ name }) => [name, '\0'.repeat(250)]))
  const decision = await app.limit.reserve(keys)
  decision.keep()
  t.match(await app.limit.reserve(keys), { allowed: false })
  await app.limit.refund(decision.receipt())
  t.match(await app.limit.reserve(keys), { allowed: true })
})
