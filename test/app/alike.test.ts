import fc from 'fast-check'
import type { InjectOptions } from 'fastify'
import t from 'tap'
import type { Failing } from '../../app/senders/sender.js'
import { seeded } from '../contract/history.js'
import { wrong } from './captcha.js'
import { ADMIN_KEY, type Answer, inject, type Place, places } from './helper.js'
import { provider } from './provider.js'

/** A code that was sent. */
interface Sent {
  id: string
  code: string
}
/** The request of one step to an app that has sent these codes, the newest first. */
type Ask = (sent: readonly Sent[]) => InjectOptions
type Step = { ask: Ask } | { waitMs: number } | { fails: Failing | null }

const NONE: Sent = { id: 'n'.repeat(22), code: '000000' }
const pick = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.nat(4))
const recipient = fc.constantFrom(
  { phone: '13800138000' },
  { phone: '13800138001' },
  { phone: '+44 7911 123456' },
  { email: 'jane@example.com' }
)
const purpose = fc.constantFrom('register', 'login', 'reset-password')
const endUserIp = fc.constantFrom('192.0.2.1', '192.0.2.2', '2001:db8::1')
const caller = fc
  .record(
    {
      'x-api-key': fc.constantFrom('key-one', 'key-one', 'key-one', 'key-two'),
      'x-end-user-ip': endUserIp,
      'idempotency-key': fc.nat(99).map(String)
    },
    { requiredKeys: ['x-api-key', 'x-end-user-ip'] }
  )
  .map(headers => ({ headers }))
const operator = { headers: { 'x-admin-key': ADMIN_KEY } }
const POST = 'POST' as const
const act = (names: string[], more: fc.Arbitrary<object>): fc.Arbitrary<Ask> =>
  fc.tuple(fc.constantFrom(...names), recipient, more).map(([name, to, more]) => () => {
    return { ...operator, method: POST, url: `/v1/admin/recipients/${name}`, payload: { ...to, ...more } }
  })

const asks: Record<string, { weight: number; arbitrary: fc.Arbitrary<Ask> }> = {
  send: {
    weight: 6,
    arbitrary: fc.tuple(caller, recipient, purpose).map(([from, to, purpose]) => () => {
      return { ...from, method: POST, url: '/v1/captcha', payload: { ...to, purpose } }
    })
  },
  resend: {
    weight: 3,
    arbitrary: fc.tuple(caller, pick).map(([from, i]) => sent => {
      return { ...from, method: POST, url: `/v1/captcha/${(sent[i] ?? NONE).id}/resend` }
    })
  },
  verify: {
    weight: 4,
    arbitrary: fc.tuple(caller, pick, fc.boolean()).map(([from, i, right]) => sent => {
      const { id, code } = sent[i] ?? NONE
      const payload = { id, code: right ? code : wrong(code) }
      return { ...from, method: POST, url: '/v1/captcha/verify', payload }
    })
  },
  statusOrCancel: {
    weight: 3,
    arbitrary: fc
      .tuple(caller, pick, fc.constantFrom('GET', 'GET', 'DELETE'))
      .map(([from, i, method]) => sent => {
        return { ...from, method, url: `/v1/captcha/${(sent[i] ?? NONE).id}` }
      })
  },
  message: {
    weight: 3,
    arbitrary: fc.tuple(caller, fc.nat(1)).map(([from, order]) => () => {
      const payload = { phone: '13800138000', template: 'order-shipped', params: { order } }
      return { ...from, method: POST, url: '/v1/sms', payload }
    })
  },
  quota: { weight: 1, arbitrary: caller.map(from => () => ({ ...from, url: '/v1/quota' })) },
  lookUpOrUnblock: {
    weight: 3,
    arbitrary: act(['lookup', 'unblock'], fc.record({ endUserIp, purpose }, { requiredKeys: [] }))
  },
  blockOrAllow: { weight: 1, arbitrary: act(['block', 'allow'], fc.constantFrom({}, { duration: '2h' })) },
  list: { weight: 1, arbitrary: fc.constant(() => ({ ...operator, url: '/v1/admin/recipients' })) }
}
const fails = fc.constantFrom<Failing | null>(null, null, null, 'failed', 'refused', 'limited', 'unknown')
// None leads to the very millisecond at which a record ends, in which Redis still has it and memory does not.
const waitMs = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(29_989, 60_013) },
  fc.constantFrom(299_993, 1_799_927, 3_600_011, 28_800_013)
)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 25, arbitrary: fc.record({ ask: fc.oneof(...Object.values(asks)) }) },
  { weight: 2, arbitrary: fc.record({ fails }) },
  { weight: 4, arbitrary: fc.record({ waitMs }) }
)

/** An app, and a function that makes the request of a step and returns the answer. */
async function openIn(place: Place) {
  const sms = provider()
  const env = { ADMIN_KEY, API_KEYS: 'key-one:one,key-two:two', LIMIT_SECRET: 'a secret of these tests' }
  const app = await place.start(env, { senders: { sms, mail: sms } })
  const sent: Sent[] = []
  return {
    place,
    sms,
    async ask(asked: Ask): Promise<Answer> {
      const answer = await inject(app, asked(sent))
      // A concealed message is sent after the answer.
      await app.unfinished()
      const { id } = answer.body ?? {}
      if (id !== undefined && answer.body.expiresAt !== undefined) sent.unshift({ id, code: sms.lastCode() })
      return answer
    }
  }
}

/** What has to be alike: all of an answer but what is random. */
function told({ status, body, headers }: Answer) {
  const { id: _, instance: __, ...said } = body ?? {}
  const names = ['ratelimit', 'ratelimit-policy', 'retry-after', 'idempotency-replayed']
  return { status, said, headers: names.map(name => headers[name]) }
}

t.test('memory and Redis answer a long history alike', async t => {
  const { seed, numRuns } = seeded(t, 1_000)
  const scenes = await Promise.all(Object.values(places).map(async open => openIn(await open(t))))
  for (const [i, each] of fc.sample(step, { seed, numRuns }).entries()) {
    for (const { place } of scenes) place.advance('waitMs' in each ? each.waitMs : 1)
    if ('fails' in each) for (const { sms } of scenes) each.fails === null ? sms.work() : sms.fail(each.fails)
    if (!('ask' in each)) continue
    const [memory, redis] = await Promise.all(scenes.map(async ({ ask }) => told(await ask(each.ask))))
    if (!t.same(redis, memory, `step ${i}`, { asked: each.ask([]) })) break
  }
})
