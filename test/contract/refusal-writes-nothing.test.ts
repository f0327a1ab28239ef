import t from 'tap'
import { limitPlugin, type Rule, type SendLimitOptions } from '../../plugin/index.js'
import { MemoryStore } from '../../plugin/store/memory.js'
import { appOf } from '../helper/face.js'
import { gate } from '../helper/gate.js'
import { contentsOf, startRedis } from '../helper/redis.js'
import type { Teardown } from '../helper/teardown.js'
import { until } from '../helper/until.js'
import { entriesOf, everything, rules as kinds } from './history.js'
import { entry, token } from './specs.js'
import { Time } from './time.js'

const START = '2026-03-28T20:00:00Z'
const rules: Rule[] = [
  { name: 'same-content', key: { digest: ['body.phone', 'body.text'] }, limits: [{ max: 1, window: '10m' }] },
  {
    name: 'mobile',
    key: { phone: 'body.phone' },
    limits: [
      { max: 2, window: '10m' },
      { max: 5, window: '1h' }
    ]
  },
  {
    name: 'account-day',
    key: { value: 'body.account' },
    limits: [{ max: 3, per: 'day', timeZone: 'Asia/Shanghai' }]
  },
  { name: 'watched', key: { value: 'body.account' }, mode: 'observe', limits: [{ max: 1, window: '1h' }] },
  {
    name: 'failures',
    key: { value: 'body.account' },
    counts: 'failures',
    limits: [{ max: 2, window: '1h' }]
  },
  // Longer than this test, so that no renewal writes meanwhile.
  { name: 'in-flight', key: { value: 'body.order' }, lock: '30m' }
]

/** An app on which one send hangs in its handler until the end. */
async function open(t: Teardown, options: SendLimitOptions) {
  const app = appOf(t)
  await app.register(limitPlugin, { ...options, rules, secret: '0123456789abcdef', timeout: '10s' })
  const [entered, onward] = [gate(), gate()]
  app.post<{ Body: { hold?: boolean; status?: number } }>(
    '/send',
    { config: { limit: rules.map(rule => rule.name) } },
    async (request, reply) => {
      if (request.body.hold) {
        entered.open()
        await onward.opened
      }
      return reply.code(request.body.status ?? 200).send('done')
    }
  )
  const send = async (body: object) =>
    (await app.inject({ method: 'POST', url: '/send', payload: body })).statusCode
  const hanging = send({ phone: '13800138000', account: 'held', text: 'x', order: 'held', hold: true })
  await entered.opened
  const statuses: number[] = []
  for (const [i, body] of [
    { phone: '13800138001', account: 'a', text: 'same' },
    { phone: '13800138002', account: 'b', text: '1' },
    { phone: '13800138002', account: 'c', text: '2' },
    { phone: '13800138003', account: 'full', text: '1' },
    { phone: '13800138004', account: 'full', text: '1' },
    { phone: '13800138005', account: 'full', text: '1' },
    { phone: '13800138006', account: 'wrong', text: '1', status: 422 },
    { phone: '13800138007', account: 'wrong', text: '1', status: 422 }
  ].entries())
    statuses.push(await send({ ...body, order: `o${i}` }))
  return {
    send,
    statuses,
    end: () => {
      onward.open()
      return hanging
    }
  }
}

/** A request that is refused, with its status; what the rules that pass are asked about is new each time, or known. */
function attempt(i: number): { body: object; status: number } {
  const fresh = {
    phone: `139${String(i).padStart(8, '0')}`,
    account: `new ${i}`,
    text: `${i}`,
    order: `new ${i}`
  }
  const refusals = [
    { body: { ...fresh, phone: '13800138001', text: 'same' }, status: 429 },
    { body: { ...fresh, phone: '13800138002' }, status: 429 },
    { body: { ...fresh, account: 'full' }, status: 429 },
    { body: { ...fresh, account: 'wrong' }, status: 429 },
    { body: { ...fresh, order: 'held' }, status: 409 },
    { body: { ...fresh, phone: '13800138001', account: 'a', order: 'held' }, status: 409 }
  ]
  return refusals[i % refusals.length] as (typeof refusals)[number]
}

t.test('Redis: after 1,000 refused attempts every key is byte for byte what it was before', async t => {
  const { client, clock } = await startRedis(t, { clock: true, startMs: Date.parse(START) })
  const { send, statuses, end } = await open(t, { client })
  t.strictSame(statuses, [200, 200, 200, 200, 200, 200, 422, 422])
  // A reply does not wait for the release of its lock.
  await until(async () => (await client.keys('*:lock')).length === 1, 'the lock of the hanging send alone')
  const before = await contentsOf(client)
  t.ok(Object.keys(before).length > 20)
  const wrong: number[] = []
  for (let i = 0; i < 1_000; i++) {
    clock.advance(1.37)
    const { body, status } = attempt(i)
    if ((await send(body)) !== status) wrong.push(i)
  }
  t.strictSame(wrong, [], 'each is refused with its status')
  t.strictSame(await contentsOf(client), before)
  t.equal(await end(), 200)
  await until(async () => (await client.keys('*:lock')).length === 0, 'the release of its lock')
  t.notSame(await contentsOf(client), before, 'the comparison sees a lock that is released')
})

t.test('memory: after 1,000 refused attempts its size and its facts are what they were before', async t => {
  const time = new Time(START)
  const store = new MemoryStore({ clock: time.clock, maxKeys: 10_000 })
  t.teardown(() => store.close())
  for (let i = 0; i < kinds.length * 8; i++) {
    const who = Math.floor(i / kinds.length) % 2
    const asked = { rules: [{ rule: i % kinds.length, who, value: i % 7 }], max: 4 }
    store.reserve(entriesOf(asked), token())
  }
  const { size } = store
  const facts = store.peek(everything)
  let refused = 0
  for (let i = 0; refused < 1_000; i++) {
    const full = {
      rules: [{ rule: [0, 1, 2, 3, 4, 5, 9, 10][i % 8] as number, who: i % 2, value: 99 }],
      max: 4
    }
    const others = kinds.flatMap(specs => specs.filter(spec => spec.rule !== entriesOf(full)[0]?.spec.rule))
    const entries = [...others.map(spec => entry(spec, `new ${i}`)), ...entriesOf(full)]
    const answer = store.reserve(entries, token())
    if (answer[1] !== 0) return t.fail(`admitted: ${JSON.stringify(full)}`)
    refused++
  }
  t.equal(store.size, size)
  t.strictSame(store.peek(everything), facts)
})

t.test(
  'memory, through the app: 1,000 attempts that one rule refuses leave the other rules free',
  async t => {
    const time = new Time(START)
    const { send, end } = await open(t, { clock: time.clock })
    const wrong: number[] = []
    for (let i = 0; i < 1_000; i++) {
      const { body, status } = attempt(i)
      if ((await send(body)) !== status) wrong.push(i)
    }
    t.strictSame(wrong, [])
    t.equal(
      await send({ phone: '13900000001', account: 'new 1', text: '1', order: 'new 1' }),
      200,
      'what was refused by another rule is not counted'
    )
    t.equal(await end(), 200)
  }
)
