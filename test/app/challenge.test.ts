import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { siteverify } from '../../app/challenge.js'
import { folderOf } from '../helper/folder.js'
import { logStream } from '../helper/log-stream.js'
import { ask, resend } from './captcha.js'
import { type App, inject, places, sha256, startApp } from './helper.js'
import { type Doing, first, startEndless, startProvider, startSilence } from './senders/servers.js'

const SECRET = 'the-secret-of-these-tests'
const TOKEN = '0.a-token_of.these-tests'
const solved: Doing = { body: { success: true, hostname: 'shop.example', 'error-codes': [] } }
const says = (...codes: string[]): Doing => ({ body: { success: false, 'error-codes': codes } })
const page = { headers: { 'x-api-key': '', origin: 'https://shop.example' } }
const server = { headers: { 'x-api-key': 'key of shop' } }

const account = { id: 'shop', keys: [sha256('key of shop')], origins: [page.headers.origin] }

/** An app that asks a provider of challenges, and the account of a page. */
async function start(t: Test, open: (typeof places)['memory'], does: Doing = solved) {
  const provider = await startProvider(t, does)
  const file = join(folderOf(t), 'accounts.json')
  writeFileSync(file, JSON.stringify([account]))
  const { stream, lines } = logStream()
  const place = await open(t)
  const env = {
    ACCOUNTS_FILE: file,
    CHALLENGE_URL: `${provider.url}/siteverify?k=1`,
    CHALLENGE_SECRET: SECRET,
    LOG_LEVEL: 'trace'
  }
  const app = await place.start(env, { logStream: stream })
  return { app, place, provider, lines }
}

const challenges = async (app: App) =>
  Object.fromEntries(
    [...(await app.inject('/metrics')).payload.matchAll(/^challenges_total\{outcome="(\w+)"\} (\d+)$/gm)].map(
      ([, outcome = '', count]) => [outcome, Number(count)]
    )
  )

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('without a key, a code is sent only for a challenge that somebody has solved', async t => {
      const { app, provider, lines } = await start(t, open)
      const missing = await ask(app, {}, page)
      t.match(missing, { status: 403, body: { code: 'CHALLENGE_MISSING' } })
      t.match(missing.headers, { 'access-control-allow-origin': page.headers.origin }, 'the page can read it')
      t.same(provider.asked, [])
      const { status, body } = await ask(app, { challenge: TOKEN }, page)
      t.equal(status, 202, 'the refused request has not counted')
      const { method, path, search, headers, body: form } = first(provider.asked)
      t.same([method, path, search], ['POST', '/siteverify', '?k=1'])
      t.equal(headers['content-type'], 'application/x-www-form-urlencoded')
      t.same(
        [...new URLSearchParams(form)],
        [
          ['secret', SECRET],
          ['response', TOKEN]
        ]
      )
      provider.does = says('timeout-or-duplicate')
      const again = await ask(app, { phone: '13900139000', challenge: TOKEN }, page)
      t.match(again, { status: 403, body: { code: 'CHALLENGE_FAILED' } })
      t.equal(app.outbox?.messages.length, 1)
      t.match(await resend(app, body.id, page), { status: 429 }, 'a resend needs no challenge')
      t.equal(provider.asked.length, 2)
      t.same(await challenges(app), { missing: 1, solved: 1, failed: 1 })
      t.notMatch(JSON.stringify(lines), new RegExp(`${SECRET}|${TOKEN}`))
    })

    await t.test('with a key a challenge may be left out, and counts if it is there', async t => {
      const { app, provider } = await start(t, open, says('invalid-input-response'))
      t.equal((await ask(app, {}, server)).status, 202)
      t.same([provider.asked.length, await challenges(app)], [0, {}])
      const failed = await ask(app, { phone: '13900139000', challenge: TOKEN }, server)
      t.match(failed, { status: 403, body: { code: 'CHALLENGE_FAILED' } })
      provider.does = solved
      t.equal((await ask(app, { phone: '13900139000', challenge: TOKEN }, server)).status, 202)
    })

    await t.test('a repetition needs no second token, and a refusal may be repeated', async t => {
      const { app, provider } = await start(t, open, says('expired-input-response'))
      const keyed = { headers: { ...page.headers, 'idempotency-key': 'a-key' } }
      t.equal((await ask(app, { challenge: TOKEN }, keyed)).status, 403)
      t.equal((await ask(app, { challenge: TOKEN }, keyed)).status, 403)
      provider.does = solved
      const sent = await ask(app, { challenge: `${TOKEN}2` }, keyed)
      t.equal(sent.status, 202)
      provider.does = says('timeout-or-duplicate')
      t.match(await ask(app, { challenge: `${TOKEN}2` }, keyed), { status: 202, body: { id: sent.body.id } })
      t.equal(provider.asked.length, 3)
    })

    await t.test('when the provider does not say, nothing is sent', async t => {
      const { app, provider, lines } = await start(t, open)
      for (const [does, why] of [
        [says('invalid-input-secret'), /invalid-input-secret$/],
        [says('timeout-or-duplicate', 'internal-error'), /internal-error$/],
        [says(`<b>${TOKEN}</b>`), /answers 200: $/],
        [{ body: { success: 'true' } }, /answers 200/],
        [{ body: 'null' }, /answers 200/],
        [{ body: '<html>' }, /answers 200/],
        [{ ...solved, status: 302 }, /answers 302/],
        [{ ...solved, status: 500 }, /answers 500/],
        [{ body: { success: true, score: 0.1 } }, /a score \(reCAPTCHA v3\)/],
        [{ body: 'x'.repeat(100_000) }, /NO_ANSWER/],
        ['break', /NO_ANSWER/],
        ['half', /NO_ANSWER/]
      ] as [Doing, RegExp][]) {
        provider.does = does
        lines.length = 0
        const answer = await ask(app, { challenge: TOKEN }, page)
        t.match(answer, { status: 503, body: { code: 'CHALLENGE_UNAVAILABLE' } }, String(why))
        const warned = lines.map(line => JSON.parse(line)).filter(({ level }) => level >= 40)
        t.match(warned, [{ msg: 'a challenge cannot be checked', err: { message: why } }])
        t.notMatch(JSON.stringify(lines), new RegExp(`${SECRET}|${TOKEN}`))
      }
      t.same(await challenges(app), { unknown: 12 })
      t.same(app.outbox?.messages, [])
      provider.does = solved
      t.equal((await ask(app, { challenge: TOKEN }, page)).status, 202)
    })

    await t.test('attempts are counted before the provider is asked', async t => {
      const { app, provider } = await start(t, open, says('invalid-input-response'))
      for (let i = 0; i < 60; i++) t.equal((await ask(app, { challenge: TOKEN }, page)).status, 403)
      t.match(await ask(app, { challenge: TOKEN }, page), {
        status: 429,
        body: { 'violated-policies': ['ip-attempts'] }
      })
      t.equal(provider.asked.length, 60)
    })
  })
}

t.test('a page that waits to be asked for a challenge is served with and without CHALLENGE_URL', async t => {
  const { app, provider } = await start(t, places.memory)
  const plain = await startApp(t, {}, {})
  for (const [each, headers, answers] of [
    [app, page.headers, [403, 202]],
    [plain, { 'x-api-key': '' }, [202]]
  ] as const) {
    const keyed = { headers: { ...headers, 'idempotency-key': 'one' } }
    const asked = [await ask(each, {}, keyed)]
    if (asked[0]?.body.code === 'CHALLENGE_MISSING') asked.push(await ask(each, { challenge: TOKEN }, keyed))
    t.same(
      asked.map(({ status }) => status),
      answers
    )
    t.equal(each.outbox?.messages.length, 1)
  }
  t.equal(provider.asked.length, 1)
})

t.test('every code that speaks of the token means that the challenge failed', async t => {
  const provider = await startProvider(t, says())
  const isSolved = siteverify(new URL(provider.url), SECRET)
  for (const codes of [
    [],
    ['missing-input-response'],
    ['invalid-input-response'],
    ['timeout-or-duplicate'],
    ['expired-input-response'],
    ['already-seen-response'],
    ['invalid-or-already-seen-response', 'invalid-input-response']
  ]) {
    provider.does = says(...codes)
    t.equal(await isSolved(TOKEN), false, codes.join())
  }
  provider.does = { status: 400, body: { success: false } }
  t.equal(await isSolved(TOKEN), false, 'the codes may be left out')
})

t.test('a provider that does not answer, or without end, is given up', async t => {
  const endless = await startEndless(t, 200, 10)
  const silent = `http://${await startSilence(t)}`
  for (const url of [endless.url, silent, 'http://127.0.0.1:1'])
    await t.rejects(siteverify(new URL(url), SECRET, 200)(TOKEN), url)
  await endless.closed
})

t.test('without CHALLENGE_URL a body has no challenge, and none is documented', async t => {
  const { app } = await start(t, places.memory)
  const plain = await startApp(t, {}, {})
  t.match(await ask(plain, { challenge: TOKEN }), {
    status: 422,
    body: { errors: [{ pointer: '#/challenge', code: 'UNEXPECTED' }] }
  })
  for (const [each, has] of [
    [app, true],
    [plain, false]
  ] as const) {
    const { body } = await inject(each, { url: '/openapi.json' })
    const { post } = body.paths['/v1/captcha']
    t.equal('challenge' in post.requestBody.content['application/json'].schema.properties, has)
    t.equal(JSON.stringify(post).includes('CHALLENGE_FAILED'), has)
  }
  for (const challenge of ['', 'a b', 'x'.repeat(8_193), 7])
    t.match(await ask(app, { challenge } as never, page), {
      status: 422,
      body: { errors: [{ pointer: '#/challenge' }] }
    })
})
