import type { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { ask, resend, status, verify, wrong } from './captcha.js'
import { places, putOnList } from './helper.js'
import { provider } from './provider.js'

// Instances of two versions run side by side while one replaces the other. So each has to find and to understand what the
// other has kept.
const [ID, CODE] = ['9YJN8NI9cSouxVHcBTFHcA', '900081']
const OWN_KEY = { headers: { 'idempotency-key': 'one' } }
const HASHES = {
  'captcha:{lPVd9IDt5tqdXaBZDaDn4Q}': {
    sealed:
      'IMSFTB9j9SnaBPnN-iOpVvYZubw5Mh0V-z9PfyAbVnuEtq8-DBr_ZH5meKjSXke6BM6QWR19ncZmpZ6FFQ9BVHzp_0k2EnRPiN504q1QSbo0LbmF1' +
      'XCIzMyWTFwHRdDigVI0uxAHJXCc7slbfFvdpsIE37GFcqtNlc3e6bSvEHYpADhy0wNNtWCx6gvTaG8ukjtTKc5UmYMyKRFTzOxCKncifTO4mt1ZQ0' +
      'EbbJ0-jxI7ugcuQkS-3jyKoEVs3NUwmb43aZia-dQkL2svpo0gFb1NpYKt6asGLXeCWvR-AhyxOQ',
    generation: '2',
    made: '2',
    left: '5',
    ends: '1772323560000',
    ended: '',
    sender: 'told',
    resends: '[["53e0c29a-5faf-4580-b80c-f1fe8c2ed716",2,["1","5","1772323500000","","told"]]]',
    receipts:
      'Ar6rOjuNZ71fsM-ZbLDS9wqlY9d4WyKTtt4aJgxsu_VAybAniQtUB01blxSr58M2aW2EblHAzJMZm47nTnssG-3LroBL-y868OLowrzj1XtuxNK_c' +
      'ehnsOSj6wz-nt9QK_StLnAKTenvOA Ar6rOjuNZxbYCsPAtA0loqaHpNWLlsgbb4goGsZQ_7-IGd4DFoAH_tcbNwUN66TJqVY-c_ZNRtWtIQphaaj' +
      'o-2BqIQm-lzz1FgjdPyc3S3tL60IOmn7MBsDNCz-UQK0BUedlvWrtwMw3tg'
  },
  'idempotency:{_GM_G6yQNBP0DgDi1UM-4A}': {
    QqGRDE3LC9wZmTeDxPBfXA:
      'FJDOAXf6kV9CsUH_6sZvKfA-ib4liMBIyoGBAScKMsKhA4k0PClL9O5Px7GahvuSJfb4RaxzSniFS23Q1os5RgBrDqVogpTkhUiz3cmdaEUuBF5tH' +
      'aFN--vvvpHio8rOi5yJOZIL-FBxm3e_Kgf8uf-9W2u840YXbNJ_VIPQy18TXsV9sFCDrgwOX85zT8h3MP-Foqn5eeHDZwa28X4nRoND14AwV4NfGJ' +
      '3yohXxdVItp_rfP2EWzQjCK2Or84Haet2CD5r28v5WQsoROzzpSa_Z_sO5TYyIVmNdiMUyumoLUgpf8Csz9O3AQWCRAJymRg7wZPXRrMYNJ_FnMpI' +
      'cM6pPvg0d4Y70Qz6PYes4EJLrwQ4AGLDJODm4DDKNCNk0svnC8dRFOXt3quf2ZfNJQ'
  },
  'list:{recipients}:entries': { dYcceMYR7qPMViiDmgNB5g: '1772323260000 0 blocked {}' }
}
const SORTED_SETS = {
  'idempotency:{_GM_G6yQNBP0DgDi1UM-4A}:ends': { QqGRDE3LC9wZmTeDxPBfXA: '1772409600000' },
  'list:{recipients}:blocked': { dYcceMYR7qPMViiDmgNB5g: '1' }
}
const STRINGS = { 'list:{recipients}:placings': '1', 'list:{recipients}:secret': 'ffZv7k9tI-CUfrDmrreM8w' }
const BLOCKED = '+8613800138001'

async function start(t: Test) {
  const place = await places.redis(t)
  const app = await place.start({}, { senders: { sms: provider() } })
  return { place, app, redis: app.redis as Redis }
}

const nameOf = (key: string) => key.replace(/^captcha:\{.{22}\}$/, 'captcha:{id}')

/** The names of the keys of the API, without those of the limits, and of what is in each. */
async function namesIn(redis: Redis): Promise<Record<string, string[]>> {
  const names: Record<string, string[]> = {}
  for (const key of await redis.keys('*')) {
    if (key.startsWith('sl:')) continue
    const type = await redis.type(key)
    const inside = { hash: () => redis.hkeys(key), zset: () => redis.zrange(key, '0', '-1') }[type]
    names[nameOf(key)] = ((await inside?.()) ?? []).sort()
  }
  return names
}

t.test('codes, answers and lists that another version has kept are found and understood', async t => {
  const { place, redis } = await start(t)
  for (const [key, fields] of Object.entries(HASHES)) await redis.hset(key, fields)
  for (const [key, members] of Object.entries(SORTED_SETS))
    for (const [member, score] of Object.entries(members)) await redis.zadd(key, score, member)
  await redis.mset(STRINGS)
  place.advance(60_000)
  const app = await place.start({}, { senders: { sms: provider() } })

  const again = await ask(app, {}, OWN_KEY)
  t.match(again, { status: 202, body: { id: ID }, headers: { 'idempotency-replayed': 'true' } })
  t.match((await status(app, ID)).body, { status: 'pending', delivery: 'accepted', triesLeft: 5 })
  t.equal((await ask(app, { phone: BLOCKED })).status, 403)
  t.equal((await verify(app, ID, wrong(CODE))).status, 422)
  t.match((await verify(app, ID, CODE)).body, { verified: true })
  const { receipts } = HASHES['captcha:{lPVd9IDt5tqdXaBZDaDn4Q}']
  for (const receipt of receipts.split(' ')) await t.resolves(app.limit.refund(receipt))
})

t.test('codes, answers and lists are kept under the names that other versions look for', async t => {
  const { place, app, redis } = await start(t)
  const { id } = (await ask(app, {}, OWN_KEY)).body
  place.advance(60_000)
  await resend(app, id)
  await putOnList(app, 'blocked', BLOCKED)
  const known = Object.entries({ ...HASHES, ...SORTED_SETS, ...STRINGS }).map(([key, held]) => [
    nameOf(key),
    typeof held === 'string' ? [] : Object.keys(held).sort()
  ])
  t.strictSame(await namesIn(redis), Object.fromEntries(known))
})
