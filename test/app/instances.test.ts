import t from 'tap'
import { lastCode, places, post } from './helper.js'

const phone = '13800138000'

t.test('two instances on one Redis share every limit and every code', async t => {
  const place = await places.redis(t)
  const [one, two] = [await place.start(), await place.start()]
  const { status, body } = await post(one, '/v1/captcha', { phone, purpose: 'register' })
  t.equal(status, 202)
  t.equal((await post(two, '/v1/captcha', { phone, purpose: 'login' })).status, 429)

  const code = lastCode(one, '+8613800138000')
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => post(i % 2 ? one : two, '/v1/captcha/verify', { id: body.id, code }))
  )
  t.equal(answers.filter(each => each.status === 200).length, 1)

  place.advance(60_000)
  const parallel = await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      post(i % 2 ? one : two, '/v1/captcha', { phone, purpose: 'register' })
    )
  )
  t.equal(parallel.filter(each => each.status === 202).length, 1)
  t.equal(Number(one.outbox?.messages.length) + Number(two.outbox?.messages.length), 2, 'one before, one now')
})

t.test('an instance that hashes under another secret does not start', async t => {
  const place = await places.redis(t)
  await place.start()
  await t.rejects(place.start({ LIMIT_SECRET: 'another secret of these tests' }), {
    code: 'FST_SEND_LIMIT_SECRET_MISMATCH'
  })
})
