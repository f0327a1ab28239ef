import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import type { Sender } from '../../app/senders/sender.js'
import { folderOf } from '../helper/folder.js'
import { operationsOf } from './fuzz/operations.js'
import { type Case, LIVE_CODE, LIVE_ID, requestsTo } from './fuzz/requests.js'
import { checkProblem, judgeOf } from './fuzz/verdict.js'
import { ADMIN_KEY, type App, KEY, places, putOnList, sha256 } from './helper.js'

const SEED = Number(process.env.FUZZ_SEED ?? 20_260_301)
const RUNS = Number(process.env.FUZZ_RUNS ?? 200)

const PHONES = ['13800138000', '+86 139 0013 9000', '13700137000', '+14155552671', '+4915123456789']
const EMAILS = [
  'jane.doe@example.com',
  'someone@example.com',
  'J.Doe+tag@gmail.com',
  '用户@例子.测试',
  '"a b"@example.com'
]
/** Some of them, each in the form that is the same for all spellings. */
const BLOCKED = ['+8613700137000', '+8613900139000', 'jdoe@gmail.com', 'jane.doe@example.com']

/** Meaningful values for the members of requests. */
const words = {
  id: [LIVE_ID],
  code: [LIVE_CODE, LIVE_CODE, LIVE_CODE, '000000'],
  phone: PHONES,
  email: EMAILS,
  to: EMAILS,
  purpose: ['register', 'register', 'register', 'login', 'reset-password', 'constructor'],
  template: [
    'order-shipped',
    'order-shipped',
    'password-changed',
    'password-changed',
    'payment-received',
    'welcome',
    'captcha'
  ],
  params: [{ order: 'A-17' }, { order: 'A-17' }, {}, { name: 'Jane' }, { amount: 12, order: 'B' }],
  duration: ['1s', '30d', '99999999d'],
  standing: ['blocked', 'allowed']
}

/**
 * Statuses that no request here leads to: no list of a rule blocks an address, and the files that are reloaded are right.
 * An injected request has a host and an address. Those that `api-attempts` alone counts are too few to be refused.
 */
const UNMET = [
  'health 400',
  'ready 400',
  'metrics 400',
  'readOutbox 400',
  'lookUpRecipient 403',
  'blockRecipient 403',
  'allowRecipient 403',
  'unblockRecipient 403',
  'readQuota 400',
  'readQuota 403',
  'readQuota 422',
  'readQuota 429',
  'listRecipients 400',
  'listRecipients 403',
  'reload 403',
  'reload 422'
]

const shop = {
  id: 'shop',
  keys: [sha256('the key of the shop')],
  revoked: [sha256('an old key of the shop')],
  purposes: ['login'],
  templates: ['welcome'],
  origins: ['https://shop.example']
}

/** Makes the code of a request, and blocks some recipients. @returns a function that puts id and code into a text */
async function prepare(app: App, { code: state }: Case, expire: () => void) {
  for (const identity of BLOCKED) await putOnList(app, 'blocked', identity)
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
    account: 'development',
    withheld: false,
    concealed: false
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
  // Does not answer at once, so that the same request may come while one is under way.
  const sender: Sender = {
    name: 'slow',
    async send(message) {
      await setImmediate()
      if (app.outbox === null) throw new Error('no outbox')
      return app.outbox.send(message)
    }
  }
  const env = { ADMIN_KEY, ACCOUNTS_FILE: accounts, API_KEYS: `${KEY}:development` }
  const app: App = await place.start(env, { senders: { sms: sender, mail: sender } })
  const { document, operations } = operationsOf(app)
  const usual = { 'x-api-key': KEY, 'x-admin-key': ADMIN_KEY }

  for (const operation of operations) {
    const { method, path, operationId, responses } = operation
    await t.test(`${method} ${path}`, async t => {
      const judge = judgeOf(document, operation)
      const met = new Set<string>()
      const good: Case[] = []
      const ask = async (asked: Case, put: (text: string) => string) => {
        const { url, headers, payload } = asked
        const response = await app.inject({
          method,
          url: put(url),
          headers,
          remoteAddress: '192.0.2.1',
          ...(payload !== undefined && { payload: put(payload) })
        })
        const { statusCode: status } = response
        met.add(String(status))
        if (status < 300) good.push(asked)
        judge({ status, headers: response.headers, text: response.payload })
      }
      await fc.assert(
        fc.asyncProperty(requestsTo(operation, words, usual), async asked => {
          place.advance(asked.advanceMs)
          await ask(asked, await prepare(app, asked, () => place.advance(300_001)))
        }),
        { seed: SEED, numRuns: RUNS, timeout: 30_000 }
      )

      // The same request many times at once, under one Idempotency-Key and without.
      for (const asked of [...good.slice(0, 2), ...good.slice(-2)]) {
        place.advance(86_400_001)
        const put = await prepare(app, asked, () => {})
        const { 'idempotency-key': _, ...plain } = asked.headers
        const flood = [{ ...plain, 'idempotency-key': 'the-same' }, plain].flatMap(headers =>
          Array.from({ length: 31 }, () => ask({ ...asked, headers }, put))
        )
        await Promise.all(flood)
      }

      t.ok(good.length > 0, 'some requests succeed')
      const expected = Object.keys(responses).filter(status => Number(status) < 500)
      t.same(
        expected.filter(status => !met.has(status)),
        UNMET.filter(each => each.startsWith(`${operationId} `)).map(each => each.split(' ')[1]),
        `every documented status but those in UNMET is met, with the seed ${SEED}`
      )
    })
  }
})

t.test('a method that a path does not take is 405, with those that it does', async t => {
  const app = await (await places.memory(t)).start({ ADMIN_KEY })
  const { document } = operationsOf(app)
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE'] as const) {
      if (methods[method.toLowerCase()]) continue
      const { statusCode: status, headers, payload: text } = await app.inject({ method, url: path })
      t.doesNotThrow(() => checkProblem({ status, headers, text }), `${method} ${path}`)
      t.match({ status, headers }, { status: 405, headers: { allow: String } }, `${method} ${path}`)
    }
  }
})
