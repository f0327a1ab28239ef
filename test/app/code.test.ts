import { randomBytes } from 'node:crypto'
import t from 'tap'
import { captchasOf } from '../../app/captcha/captchas.js'
import { codeOf, minutesOf } from '../../app/captcha/code.js'
import { MemoryRecords } from '../../app/captcha/memory-records.js'
import { systemClock } from '../../app/clock.js'
import { sameText } from '../../app/keyed-hash.js'
import { loadPolicy } from '../../app/policy.js'
import { seal, unseal } from '../../app/seal.js'

const key = Buffer.alloc(32, 1)
const of = { id: 'id', identity: '+8613800138000', purpose: 'login', generation: 1 }
/** The other members that a code is asked for with. */
const sent = {
  channel: 'sms',
  to: of.identity,
  masked: '',
  locale: 'en',
  account: 'shop',
  withheld: false,
  concealed: false
} as const
const random = (digits: number) => codeOf(key, { ...of, id: randomBytes(16).toString('base64url') }, digits)

t.test(
  'a code is the same each time, and another for another id, recipient, purpose, generation, key and values',
  async t => {
    const code = codeOf(key, of, 10)
    t.equal(codeOf(key, { ...of }, 10), code)
    const others = [
      codeOf(key, { ...of, id: 'other' }, 10),
      codeOf(key, { ...of, identity: '+8613900139000' }, 10),
      codeOf(key, { ...of, purpose: 'register' }, 10),
      codeOf(key, { ...of, generation: 2 }, 10),
      codeOf(Buffer.alloc(32, 2), of, 10),
      // Parts cannot run into each other.
      codeOf(key, { ...of, identity: '+86', purpose: '13800138000login' }, 10),
      codeOf(key, { ...of, params: { amount: '12' } }, 10),
      codeOf(key, { ...of, params: { amount: '13' } }, 10)
    ]
    t.equal(new Set([code, ...others]).size, 9)
    const [one, other] = [
      { a: '1', b: '2' },
      { b: '2', a: '1' }
    ].map(params => codeOf(key, { ...of, params }, 10))
    t.equal(one, other, 'the order of the params makes no difference')
    // The same in every version of this app.
    t.equal(codeOf(key, { ...of, generation: 3 }, 10), '8141327220')
  }
)

for (const digits of [4, 6, 10]) {
  t.test(`codes of ${digits} digits are uniform, leading zeros included`, async t => {
    const codes = Array.from({ length: 10_000 }, () => random(digits))
    t.ok(codes.every(code => code.length === digits && /^\d+$/.test(code)))
    for (let place = 0; place < digits; place++) {
      const counts = Array.from({ length: 10 }, (_, n) => codes.filter(code => code[place] === `${n}`).length)
      const chiSquare = counts.reduce((sum, count) => sum + (count - 1_000) ** 2 / 1_000, 0)
      // With 9 degrees of freedom more than that happens once in ten billion by chance.
      t.ok(chiSquare < 66, `place ${place}: ${counts.join(' ')}`)
    }
  })
}

t.test('codes are compared as a whole', async t => {
  t.equal(sameText('012345', '012345'), true)
  for (const other of ['12345', '0123456', '112345', '０12345', ''])
    t.equal(sameText('012345', other), false, other)
})

t.test('a sealed text opens with its key in its context alone', async t => {
  const sealed = seal(key, 'text', 'id')
  t.equal(unseal(key, sealed, 'id'), 'text')
  t.not(seal(key, 'text', 'id'), sealed)
  t.throws(() => unseal(key, sealed, 'other'))
  t.throws(() => unseal(Buffer.alloc(32, 2), sealed, 'id'))
})

t.test('the record of one code does not open under the id of another', async t => {
  const records = new MemoryRecords(systemClock)
  const captchas = captchasOf({ records, secret: 'a secret of these tests', policy: () => loadPolicy() })
  const { put } = records
  const names: string[] = []
  let first: string | undefined
  // As somebody who can write to Redis could copy it.
  records.put = (name, sealed, terms) => {
    names.push(name)
    return put.call(records, name, (first ??= sealed), terms)
  }
  const [one, other] = [await captchas.start({ ...of, ...sent }), await captchas.start({ ...of, ...sent })]
  t.match(await captchas.find(one.id, 'shop'), { identity: of.identity })
  await t.rejects(captchas.find(other.id, 'shop'), /unable to authenticate/)
  t.notOk(names.includes(one.id), 'the name of a record tells no id')
  const policy = () => loadPolicy()
  const others = captchasOf({ records, secret: 'another secret of these tests', policy })
  t.equal(await others.find(one.id, 'shop'), null, 'another secret does not find the record')
})

t.test('a code that was looked up before later ones were made is resent as the latest', async t => {
  const own = loadPolicy()
  let resend: 'rotate' | 'reuse' = 'rotate'
  const captchas = captchasOf({
    records: new MemoryRecords(systemClock),
    secret: 'a secret of these tests',
    policy: () => ({ ...own, code: { ...own.code, digits: 10, resend } })
  })
  const { id } = await captchas.start({ ...of, ...sent })
  const find = async () => {
    const found = await captchas.find(id, 'shop')
    if (found === null) throw new Error('no code')
    return found
  }
  const before = await find()
  const [one, two] = [await captchas.renew(before), await captchas.renew(before)]
  t.not(one?.code, two?.code)
  t.match(await captchas.check(await find(), one?.code), { verified: false, tried: true })
  resend = 'reuse'
  t.equal((await captchas.renew(before))?.code, two?.code)
  t.match(await captchas.check(await find(), two?.code), { verified: true })
})

t.test('a code is found by the account that asked for it alone', async t => {
  const records = new MemoryRecords(systemClock)
  const captchas = captchasOf({ records, secret: 'a secret of these tests', policy: () => loadPolicy() })
  const { id } = await captchas.start({ ...of, ...sent })
  t.match(await captchas.find(id, 'shop'), { account: 'shop' })
  t.equal(await captchas.find(id, 'other'), null)
})

t.test('a code keeps its length, whatever the policy has become since', async t => {
  const own = loadPolicy()
  let digits = 6
  const captchas = captchasOf({
    records: new MemoryRecords(systemClock),
    secret: 'a secret of these tests',
    policy: () => ({ ...own, code: { ...own.code, digits } })
  })
  const { id, code } = await captchas.start({ ...of, ...sent })
  digits = 8
  const found = await captchas.find(id, 'shop')
  if (found === null) throw new Error('no code')
  t.match(await captchas.check(found, code), { verified: true })
})

t.test('a message promises no longer life than its code has', async t => {
  t.same([600_000, 300_000, 299_999, 90_000, 60_000].map(minutesOf), [10, 5, 4, 1, 1])
  t.equal(minutesOf(30_000), 1, 'a life of less than a minute is called one')
})
