import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import type { Rule } from '../../plugin/index.js'
import { heardOn } from '../helper/channel.js'
import { ask, E164, PHONE, verify, wrong } from './captcha.js'
import { ADMIN_KEY, type App, lastCode, places, post, putOnList } from './helper.js'

const acting = (act: string) => (app: App, asked: object) =>
  post(app, `/v1/admin/recipients/${act}`, asked, { headers: { 'x-admin-key': ADMIN_KEY } })
const [lookUp, unblock] = [acting('lookup'), acting('unblock')]
const from = (remoteAddress: string) => ({ remoteAddress })

interface Shown {
  rule: string
  windowMs: number
  refuses: boolean
}
const refusing = ({ body }: { body: { rules: Shown[] } }) =>
  body.rules.filter(({ refuses }) => refuses).map(({ rule, windowMs }) => [rule, windowMs])
const named = ({ body }: { body: { rules: Shown[] } }) => new Set(body.rules.map(({ rule }) => rule))

for (const [name, open] of Object.entries(places)) {
  t.test(`a look-up tells the hash by which the audit trail is searched (${name})`, async t => {
    const app = await (await open(t)).start({ ADMIN_KEY })
    const events = heardOn(t, 'verification-api:audit') as { event: string; recipientHash?: string }[]
    await ask(app)
    const [sent] = events.filter(({ event }) => event === 'send')
    t.match(sent?.recipientHash, /^[\w-]{22}$/)
    for (const phone of [PHONE, '+86 138-0013-8000'])
      t.equal((await lookUp(app, { phone })).body.recipientHash, sent?.recipientHash, phone)
    t.not((await lookUp(app, { phone: '13900139000' })).body.recipientHash, sent?.recipientHash)
  })

  t.test(`a look-up shows a number range that is full, as a send is refused (${name})`, async t => {
    const app = await (await open(t)).start({ ADMIN_KEY })
    // From the first number of a thousand to the last.
    const number = (i: number) => `13800138${String(i === 20 ? 999 : i * 49).padStart(3, '0')}`
    for (let i = 0; i < 20; i++) {
      const address = from(`192.0.2.${i}`)
      t.equal((await ask(app, { phone: number(i) }, address)).status, 202)
    }
    const phone = number(20)
    const { status, body } = await ask(app, { phone }, from('192.0.2.20'))
    t.match({ status, body }, { status: 429, body: { 'violated-policies': ['number-range-1h'] } })
    const found = await lookUp(app, { phone })
    t.same(refusing(found), [['number-range', 3_600_000]])
    t.match(
      found.body.rules.filter(({ rule }: Shown) => rule === 'number-range'),
      [
        { max: 20, used: 20, remaining: 0, resetMs: body.retryAfterMs },
        { max: 50, used: 20, remaining: 30, refuses: false }
      ]
    )
    t.equal(found.body.retryAfterMs, body.retryAfterMs)
    t.same(refusing(await lookUp(app, { phone: '13800139000' })), [], 'the next range has its own count')
    const counted = await lookUp(app, { phone: number(0) })
    t.same(
      refusing(counted),
      [['recipient', 60_000]],
      'a number that is counted already is not refused by it'
    )
    t.equal(counted.body.retryAfterMs, 60_000)
    await putOnList(app, 'allowed', `+86${phone}`)
    t.match(await lookUp(app, { phone }), { body: { retryAfterMs: 0 } })
    t.notOk(
      named(await lookUp(app, { email: 'jane@example.com' })).has('number-range'),
      'mail has no number range'
    )
  })

  t.test(
    `wrong codes of a network show, and are forgotten, if purpose and address are named (${name})`,
    async t => {
      const place = await open(t)
      const app = await place.start({ ADMIN_KEY })
      const { id } = (await ask(app, {}, from('198.51.100.2'))).body
      const right = lastCode(app, E164)
      for (let i = 0; i < 2; i++) {
        place.advance(60_001)
        const guessed = (await ask(app)).body
        for (let j = 0; j < 5; j++) await verify(app, guessed.id, wrong(lastCode(app, E164)))
      }
      place.advance(60_001)
      const refused = { status: 429, body: { 'violated-policies': ['verify-failures-1h'] } }
      const { retryAfterMs } = (await verify(app, id, right)).body
      const asked = { phone: PHONE, endUserIp: '192.0.2.1', purpose: 'register' }
      const { phone, endUserIp, purpose } = asked
      const others = [
        { phone },
        { phone, endUserIp },
        { phone, purpose },
        { ...asked, endUserIp: '198.51.100.1' },
        { ...asked, purpose: 'login' }
      ]
      for (const other of others) {
        const found = await lookUp(app, other)
        t.ok(named(found).has('verify-failures-recipient'))
        t.notOk(named(found).has('service'))
        t.notOk(refusing(found).some(([rule]) => rule === 'verify-failures'))
        t.match((await unblock(app, other)).body, { countsCleared: true })
        t.match(await verify(app, id, right), refused, JSON.stringify(other))
      }
      const found = await lookUp(app, asked)
      t.same(refusing(found), [['verify-failures', 3_600_000]])
      t.equal(found.body.retryAfterMs, retryAfterMs)
      t.match((await unblock(app, asked)).body, { countsCleared: true })
      t.equal((await verify(app, id, right)).status, 200)
    }
  )

  t.test(`unblocking with an address forgets what its network sent the recipient (${name})`, async t => {
    const place = await open(t)
    const app = await place.start({ ADMIN_KEY })
    for (let i = 0; i < 5; i++) {
      t.equal((await ask(app, {}, from('2001:db8::1'))).status, 202)
      place.advance(61 * 60_000)
    }
    const refused = { status: 429, body: { 'violated-policies': ['recipient-network'] } }
    for (const asked of [{}, { endUserIp: '2001:db9::1' }]) {
      await unblock(app, { phone: PHONE, ...asked })
      t.match(await ask(app, {}, from('2001:db8:0:7::1')), refused)
    }
    await unblock(app, { phone: PHONE, endUserIp: '2001:db8:0:9::1' })
    t.equal((await ask(app, {}, from('2001:db8:0:7::1'))).status, 202)
    const { rules } = (await lookUp(app, { phone: PHONE, endUserIp: '2001:db8::1' })).body
    t.match(
      rules.filter(({ rule }: Shown) => rule === 'ip-site').map(({ used }: { used: number }) => used),
      [1, 6],
      'a rule that counts others, too, forgets nothing'
    )
  })

  t.test(`for a concealed purpose a look-up says that allowed recipients wait, too (${name})`, async t => {
    const app = await (await open(t)).start({ ADMIN_KEY })
    t.equal((await ask(app)).status, 202)
    await putOnList(app, 'allowed', E164)
    for (const asked of [{}, { purpose: 'register' }])
      t.match(await lookUp(app, { phone: PHONE, ...asked }), { body: { retryAfterMs: 0 } })
    const concealed = await lookUp(app, { phone: PHONE, purpose: 'reset-password' })
    t.same(refusing(concealed), [['recipient', 60_000]])
    t.equal(concealed.body.retryAfterMs, 60_000)
    t.equal((await ask(app, { purpose: 'reset-password' })).status, 429)
    t.equal((await ask(app)).status, 202)
  })

  t.test(`a look-up with the end user’s address shows the rules that count by it (${name})`, async t => {
    const place = await open(t)
    const app = await place.start({ ADMIN_KEY })
    for (let i = 0; i < 5; i++) {
      t.equal((await ask(app, {}, from('2001:db8::1'))).status, 202)
      place.advance(61 * 60_000)
    }
    const refused = await ask(app, {}, from('2001:db8:0:7::1'))
    t.match(refused, { status: 429, body: { 'violated-policies': ['recipient-network'] } })
    const { retryAfterMs } = refused.body
    const without = await lookUp(app, { phone: PHONE })
    t.same([refusing(without), without.body.retryAfterMs], [[], 0])
    const near = await lookUp(app, { phone: PHONE, endUserIp: '2001:db8:0:9::1' })
    t.same(refusing(near), [['recipient-network', 86_400_000]], 'the same /48')
    t.equal(near.body.retryAfterMs, retryAfterMs)
    const far = await lookUp(app, { phone: PHONE, endUserIp: '192.0.2.7' })
    t.same([refusing(far), far.body.retryAfterMs], [[], 0])
    const more = [...named(far)].filter(rule => !named(without).has(rule))
    t.same(more, ['ip', 'ip-site', 'ip-recipients', 'recipient-network', 'send-failures'])
    for (let i = 0; i < 5; i++) await ask(app, { phone: `1390013900${i}` }, from('192.0.2.7'))
    const full = await lookUp(app, { phone: PHONE, endUserIp: '192.0.2.7' })
    t.same(refusing(full), [
      ['ip', 60_000],
      ['ip-recipients', 3_600_000]
    ])
    t.equal(full.body.retryAfterMs, 3_600_000)
  })
}

t.test('a look-up shows rules of another policy by all that is known of the recipient', async t => {
  const own = loadPolicy()
  const by = (of: string): Partial<Rule> => ({
    key: [{ value: `request.${of}.identity` }, { value: `request.${of}.channel` }]
  })
  const changed: Record<string, Partial<Rule>> = {
    recipient: by('recipient'),
    'verify-failures-recipient': by('captcha'),
    'ip-site': { key: [{ value: 'request.recipient.identity' }, { value: 'request.purpose' }] },
    mobile: { block: ['+8613800138000'] }
  }
  const rules = own.rules.map(rule => ({ ...rule, ...changed[rule.name] }) as Rule)
  const app = await (await places.memory(t)).start({ ADMIN_KEY }, { policy: { ...own, rules } })
  t.equal((await ask(app)).status, 202)
  const found = await lookUp(app, { phone: PHONE })
  t.ok(named(found).has('verify-failures-recipient'))
  t.same(refusing(found), [
    ['recipient', 60_000],
    ['mobile', 0]
  ])
  await putOnList(app, 'allowed', '+8613800138000')
  t.same(refusing(await lookUp(app, { phone: PHONE })), [['recipient', 60_000]], 'allow goes before block')
  const used = async (purpose: string) =>
    (await lookUp(app, { phone: PHONE, purpose })).body.rules
      .filter(({ rule }: Shown) => rule === 'ip-site')
      .map(({ used }: { used: number }) => used)
  t.notOk(named(found).has('ip-site'))
  t.same(
    [await used('register'), await used('login')],
    [
      [1, 1],
      [0, 0]
    ]
  )
})

t.test('an endUserIp that is no address is refused', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  for (const endUserIp of [
    '192.0.2',
    'localhost',
    '192.0.2.1/24',
    '192.0.2.1:80',
    '[2001:db8::1]',
    'fe80::1%eth0 '
  ])
    t.match(await lookUp(app, { phone: PHONE, endUserIp }), {
      status: 422,
      body: { code: 'END_USER_IP_INVALID', errors: [{ pointer: '#/endUserIp', code: 'FORMAT' }] }
    })
  for (const endUserIp of ['', 7, null])
    t.match(await lookUp(app, { phone: PHONE, endUserIp }), {
      status: 422,
      body: { code: /^INVALID$/, errors: [{ pointer: '#/endUserIp' }] }
    })
})

t.test('the audit trail tells for which purpose an operator asked', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const events = heardOn(t, 'verification-api:audit') as { action?: string; purpose?: string }[]
  for (const act of [lookUp, unblock]) {
    await act(app, { phone: PHONE, endUserIp: '192.0.2.1', purpose: 'login' })
    await act(app, { phone: PHONE })
  }
  t.same(
    events.map(({ action, purpose }) => [action, purpose]),
    ['lookup', 'unblock'].flatMap(action => [
      [action, 'login'],
      [action, undefined]
    ])
  )
})

t.test('an unknown purpose is refused, and nothing is forgotten', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  t.equal((await ask(app)).status, 202)
  for (const act of [lookUp, unblock])
    t.match(await act(app, { phone: PHONE, purpose: 'constructor' }), {
      status: 422,
      body: { code: 'PURPOSE_UNKNOWN', errors: [{ pointer: '#/purpose', code: 'NOT_ONE_OF' }] }
    })
  t.equal((await ask(app)).status, 429)
})
