import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { operationsOf } from './fuzz/operations.js'
import { type Case, LIVE_CODE, LIVE_ID, requestsTo } from './fuzz/requests.js'
import { type Got, judgeOf } from './fuzz/verdict.js'
import { type App, KEY, places } from './helper.js'
import { ADMIN_KEY, folderOf } from './operating.js'

const SEED = Number(process.env.FUZZ_SEED ?? 20_260_301)
const RUNS = Number(process.env.FUZZ_RUNS ?? 300)

const PHONES = ['13800138000', '+86 139 0013 9000', '13700137000', '+14155552671', '+4915123456789']
const EMAILS = ['jane.doe@example.com', 'J.Doe+tag@gmail.com', '用户@例子.测试', '"a b"@example.com']
const BLOCKED = '+8613700137000'

/** What the members of requests are worth to be. */
const words = {
  id: [LIVE_ID, LIVE_ID, LIVE_ID, 'AAAAAAAAAAAAAAAAAAAAAA'],
  code: [LIVE_CODE, LIVE_CODE, '000000'],
  phone: PHONES,
  email: EMAILS,
  to: EMAILS,
  purpose: ['register', 'register', 'login', 'reset-password', 'constructor'],
  template: ['order-shipped', 'password-changed', 'payment-received', 'welcome', 'captcha'],
  params: [{ order: 'A-17' }, { order: 'A-17' }, {}, { name: 'Jane' }, { amount: 12, order: 'B' }],
  duration: ['1s', '30d', '99999999d'],
  standing: ['blocked', 'allowed']
}

const sha256 = (key: string) => createHash('sha256').update(key).digest('hex')
const shop = {
  id: 'shop',
  keys: [sha256('the key of the shop')],
  revoked: [sha256('an old key of the shop')],
  purposes: ['login'],
  templates: ['welcome'],
  origins: ['https://shop.example']
}

/** Makes the code that the request is about, and blocks one recipient. @returns how its id and code are put in */
async function prepare(app: App, { code: state }: Case, expire: () => void) {
  await app.lists.put(BLOCKED, { standing: 'blocked', masked: '+86*******7000' })
  const to = {
    channel: 'sms',
    to: '+8613800138000',
    identity: '+8613800138000',
    masked: '+86*******8000'
  } as const
  const { id, code } = await app.captchas.start({
    ...to,
    purpose: 'register',
    locale: 'en',
    account: 'development'
  })
  const captcha = await app.captchas.find(id, 'development')
  if (captcha !== null && state === 'verified') await app.captchas.check(captcha, code)
  if (captcha !== null && state === 'cancelled') await app.captchas.cancel(captcha)
  if (state === 'expired') expire()
  return (text: string) => text.replaceAll(LIVE_ID, id).replaceAll(LIVE_CODE, code)
}

t.test('every operation answers as documented, whatever comes', async t => {
  const place = await places.memory(t)
  const accounts = join(folderOf(t), 'accounts.json')
  writeFileSync(accounts, JSON.stringify([shop]))
  const app = await place.start({ ADMIN_KEY, ACCOUNTS_FILE: accounts, API_KEYS: `${KEY}:development` })
  const { document, operations } = operationsOf(app)
  const usual = { 'x-api-key': KEY, 'x-admin-key': ADMIN_KEY }

  for (const operation of operations) {
    const { method, path, operationId, responses } = operation
    await t.test(`${method} ${path}`, async t => {
      const judge = judgeOf(document, operation)
      const met = new Set<string>()
      const ask = async ({ url, headers, payload }: Case): Promise<Got> => {
        const given = {
          method,
          url,
          headers,
          remoteAddress: '192.0.2.1',
          ...(payload !== undefined && { payload })
        }
        const response = await app.inject(given)
        met.add(String(response.statusCode))
        return { status: response.statusCode, headers: response.headers, text: response.payload }
      }
      const requests = requestsTo(operation, words, usual)
      await fc.assert(
        fc.asyncProperty(requests, async asked => {
          place.advance(asked.advanceMs)
          const put = await prepare(app, asked, () => place.advance(300_001))
          const { url, payload } = asked
          judge(await ask({ ...asked, url: put(url), payload: payload && put(payload) }))
        }),
        { seed: SEED, numRuns: RUNS, timeout: 5_000 }
      )
      console.error(
        operationId,
        'not met:',
        Object.keys(responses)
          .filter(s => !met.has(s) && s < '500')
          .join(' ')
      )
    })
  }
})
