import type { InjectOptions } from 'fastify'
import t from 'tap'
import { gate } from '../../helper/gate.js'
import { DAY, places, scene, start } from './scene.js'

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('a repetition gets the first answer, whatever the order of its members', async t => {
      const { post, seen } = await start(t, await open(t))
      const first = await post('/free', 'a-key', { to: 'x', params: { a: [1, { c: 1, d: 2 }], b: null } })
      t.match(first, { status: 202, replayed: false, body: { id: 'message 1' } })
      const again = await post('/free', '"a-key"', { params: { b: null, a: [1, { d: 2, c: 1 }] }, to: 'x' })
      t.match(again, { status: 202, replayed: true, text: first.text, headers: { 'content-language': 'zh' } })
      t.equal(again.headers['content-type'], first.headers['content-type'])
      t.notOk(again.headers['x-more'], 'of the headers only those that describe the body are repeated')
      t.equal(seen.runs, 1)
    })

    await t.test('without a key every request is a new one', async t => {
      const { post } = await start(t, await open(t))
      t.equal((await post('/free', undefined)).body.id, 'message 1')
      t.equal((await post('/free', undefined)).body.id, 'message 2')
    })

    await t.test('another body under the same key is refused', async t => {
      const { post, seen } = await start(t, await open(t))
      await post('/free', 'a-key', { to: 'x', params: [1, 2] })
      for (const body of [
        {},
        { to: 'y', params: [1, 2] },
        { to: 'x', params: [2, 1] },
        { to: 'x', params: { 0: 1, 1: 2 } },
        { to: 'x', params: '12' }
      ]) {
        const refused = await post('/free', 'a-key', body)
        t.match(refused, { status: 422, replayed: false, body: { code: 'IDEMPOTENCY_KEY_REUSED' } })
      }
      t.match(await post('/free', 'a-key', { to: 'x', params: [1, 2] }), { replayed: true })
      t.equal(seen.runs, 1)
    })

    await t.test('a key belongs to one account or network, one method and one route', async t => {
      const { post, seen } = await start(t, await open(t))
      const from = (remoteAddress: string) => post('/free', 'a-key', {}, { remoteAddress })
      const by = (account: string, more: InjectOptions = {}) =>
        post('/free', 'a-key', {}, { headers: { 'x-account': account }, ...more })
      const byPage = (remoteAddress: string, account = 'one') =>
        by(account, { headers: { 'x-account': account, 'x-caller': 'origin' }, remoteAddress })
      const distinct = [
        await from('192.0.2.1'),
        await from('192.0.2.2'),
        await from('2001:db8::1'),
        await by('one'),
        await by('192.0.2.1'),
        await byPage('198.51.100.1'),
        await byPage('198.51.100.2'),
        await post('/other', 'a-key'),
        await post('/free/1', 'a-key'),
        await post('/free/2', 'a-key'),
        await post('/free', 'a-key', {}, { method: 'PUT' }),
        await byPage('198.51.100.1', 'two'),
        await from('198.51.100.1')
      ]
      t.equal(new Set(distinct.map(({ body }) => body.id)).size, distinct.length)
      t.ok(distinct.every(({ replayed }) => !replayed))
      t.equal((await from('::ffff:192.0.2.1')).body.id, 'message 1')
      t.equal((await from('2001:db8::2')).body.id, 'message 3')
      t.equal((await by('one', { remoteAddress: '198.51.100.1' })).body.id, 'message 4')
      t.equal((await post('/free/%31', 'a-key')).body.id, 'message 9')
      t.equal(seen.runs, distinct.length)
    })

    await t.test('a 422 is kept, and repeated as a problem', async t => {
      const { post } = await start(t, await open(t))
      const first = await post('/free', 'a-key', { answer: 422 })
      t.match(first, { status: 422, replayed: false, body: { id: 'message 1' } })
      const again = await post('/free', 'a-key', { answer: 422 })
      t.match(again, { status: 422, replayed: true, text: first.text })
      t.equal(again.headers['content-type'], 'application/problem+json')
      t.equal(again.headers['content-language'], first.headers['content-language'])
    })

    for (const answer of [200, 299, 504, 'full', 'empty'] as const) {
      await t.test(`the answer ${answer} is kept`, async t => {
        const { post, seen } = await start(t, await open(t))
        const first = await post('/free', 'a-key', { answer })
        t.match(first, { status: typeof answer === 'number' ? answer : 202, replayed: false })
        const again = await post('/free', 'a-key', { answer })
        t.match(again, { status: first.status, replayed: true, text: first.text })
        t.equal(again.headers['content-type'], first.headers['content-type'])
        t.equal(seen.runs, 1)
      })
    }

    for (const answer of [300, 400, 404, 409, 429, 500, 502, 503, 'large', 'stream'] as const) {
      await t.test(`the answer ${answer} is not kept`, async t => {
        const { post } = await start(t, await open(t))
        const first = await post('/free', 'a-key', { answer })
        t.equal(first.status, typeof answer === 'number' ? answer : 202)
        const again = await post('/free', 'a-key', { answer })
        t.match(again, { status: first.status, replayed: false })
        if (answer !== 'stream') t.equal(again.body.id, 'message 2')
        t.match(
          await post('/free', 'a-key', {}),
          { status: 202, body: { id: 'message 3' } },
          'the key is free, even for another body'
        )
      })
    }

    await t.test(
      'of 30 parallel requests one runs, the others are 409; later ones get its answer',
      async t => {
        const place = await open(t)
        const seen = scene()
        seen.wait = seen.onward.opened
        const one = await start(t, place, {}, seen)
        const two = place.url === undefined ? one : await start(t, place, {}, seen)
        const posts = Array.from({ length: 30 }, (_, i) =>
          (i % 2 ? one : two).post('/free', 'a-key', { to: 'x' })
        )
        let answered = 0
        const others = gate()
        for (const each of posts) void each.then(() => ++answered === 29 && others.open())
        await others.opened
        t.match(
          await one.post('/free', 'a-key', { to: 'y' }),
          { status: 422 },
          'another body is refused meanwhile'
        )
        seen.onward.open()
        const all = await Promise.all(posts)
        t.equal(seen.runs, 1)
        t.equal(all.filter(({ status }) => status === 202).length, 1)
        const refused = all.filter(({ status }) => status !== 202)
        t.match(refused, Array(29).fill({ status: 409, body: { code: 'IDEMPOTENCY_KEY_IN_USE' } }))
        t.ok(refused.every(({ headers }) => headers['retry-after'] === '1'))
        for (const { post } of [one, two]) {
          t.match(await post('/free', 'a-key', { to: 'x' }), {
            status: 202,
            replayed: true,
            body: { id: 'message 1' }
          })
        }
        t.equal(seen.runs, 1)
      }
    )

    await t.test('an answer is kept for 24 hours', async t => {
      const place = await open(t)
      const { post } = await start(t, place)
      await post('/free', 'a-key')
      place.advance(DAY - 1)
      t.match(await post('/free', 'a-key', { to: 'other' }), { status: 422 })
      t.match(await post('/free', 'a-key'), { replayed: true })
      place.advance(1)
      t.match(await post('/free', 'a-key', { to: 'other' }), { replayed: false, body: { id: 'message 2' } })
    })

    await t.test('a replay is an attempt and no send; a limit that refuses frees the key', async t => {
      const place = await open(t)
      const { post, seen } = await start(t, place)
      await post('/limited', 'a-key', { to: 'x' })
      t.match(await post('/limited', 'a-key', { to: 'x' }), { status: 202, replayed: true })
      t.match(await post('/limited', 'b-key', { to: 'x' }), { status: 429 })
      place.advance(60_000)
      t.match(await post('/limited', 'b-key', { to: 'x' }), { status: 202, replayed: false })
      t.match(await post('/limited', 'b-key', { to: 'x' }), { status: 429 }, 'the fifth attempt')
      t.equal(seen.runs, 2)
    })
  })
}
