import t from 'tap'
import { ask, E164, resend, status, verify, wrong } from './captcha.js'
import { type App, places, putOnList } from './helper.js'
import { provider } from './provider.js'

/** Three instances on one Redis that send through one provider. */
async function three(t: Parameters<typeof places.redis>[0]) {
  const place = await places.redis(t)
  const sms = provider()
  const start = () => place.start({}, { senders: { sms } })
  const apps = [await start(), await start(), await start()] as const
  const any = (i: number): App => apps[i % 3] as App
  return { place, sms, apps, any }
}

t.test('three instances: 50 parallel sends make one message', async t => {
  const { sms, any } = await three(t)
  // The message is under way until all others are answered.
  let answered = 0
  const { letGo } = sms.hold()
  const answers = await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      const answer = await ask(any(i), {}, { remoteAddress: `192.0.2.${i}` })
      if (++answered === 49) letGo()
      return answer
    })
  )
  t.equal(sms.messages.length, 1)
  t.equal(answers.filter(each => each.status === 202).length, 1)
  t.equal(answers.filter(each => each.status === 409 || each.status === 429).length, 49)
})

t.test('three instances: a code that one has sent can be used on each', async t => {
  const { place, sms, any } = await three(t)
  const { id } = (await ask(any(0))).body
  t.equal((await ask(any(1))).status, 429)
  const first = sms.lastCode()
  t.match((await verify(any(1), id, wrong(first))).body, { triesLeft: 4 })
  t.match((await status(any(2), id)).body, { triesLeft: 4 })
  place.advance(60_000)
  t.equal((await resend(any(1), id)).status, 202)
  t.equal((await verify(any(2), id, first)).status, 422)
  const code = sms.lastCode()
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => verify(any(i), id, code)))
  t.equal(answers.filter(each => each.status === 200).length, 1)
})

t.test('three instances: guesses, idempotency keys, and lists are shared', async t => {
  const { place, sms, any } = await three(t)
  const headers = { 'idempotency-key': 'one' }
  const first = await ask(any(0), {}, { headers })
  const again = await ask(any(1), {}, { headers })
  t.same(again.body, first.body)
  t.equal(again.headers['idempotency-replayed'], 'true')
  t.match(await ask(any(2), { purpose: 'login' }, { headers }), {
    status: 422,
    body: { code: 'IDEMPOTENCY_KEY_REUSED' }
  })
  t.equal(sms.messages.length, 1)

  let tried = 0
  for (let i = 0; i < 15; i++) {
    if (i % 5 === 0) {
      place.advance(60_000)
      await resend(any(i), first.body.id)
    }
    if ((await verify(any(i), first.body.id, wrong(sms.lastCode()))).status === 422) tried++
  }
  t.equal(tried, 10)

  await putOnList(any(0), 'blocked', E164)
  place.advance(60_000)
  for (let i = 0; i < 3; i++) t.equal((await ask(any(i))).status, 403)
})

t.test('an instance that hashes under another secret does not start', async t => {
  const place = await places.redis(t)
  await place.start()
  await t.rejects(place.start({ LIMIT_SECRET: 'another secret of these tests' }), {
    code: 'FST_SEND_LIMIT_SECRET_MISMATCH'
  })
})
