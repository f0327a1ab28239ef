import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { heardOn } from '../helper/channel.js'
import { folderOf } from '../helper/folder.js'
import { ask, askMail, cancel, E164, PHONE, resend, status, told, verify, wrong } from './captcha.js'
import { type App, KEY, lastCode, places, putOnList } from './helper.js'
import { provider } from './provider.js'

const LOGIN = { purpose: 'login' }

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('tries of a code that has ended lock nobody out', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app, LOGIN)).body
      const statuses = new Map<number, number>()
      // As a stranger would, from many networks, in parallel: 130 tries, of which five are before the code has ended.
      for (let network = 1; network <= 13; network++) {
        const from = { remoteAddress: `203.0.113.${network}` }
        const all = Array.from({ length: 10 }, () => verify(app, id, wrong(lastCode(app, E164)), {}, from))
        for (const each of await Promise.all(all)) {
          statuses.set(each.status, (statuses.get(each.status) ?? 0) + 1)
        }
      }
      t.same([...statuses], [[422, 130]])
      place.advance(60_000)
      const own = (await ask(app, LOGIN)).body.id
      t.equal((await verify(app, own, lastCode(app, E164))).status, 200)
    })

    await t.test('resends of a code that has ended hold up no other code of its recipient', async t => {
      const place = await open(t)
      const app = await place.start()
      const { id } = (await ask(app, LOGIN)).body
      t.equal((await cancel(app, id)).status, 204)
      t.equal((await resend(app, id)).status, 410, 'also while no code can be sent')
      place.advance(60_000)
      const stranger = { remoteAddress: '203.0.113.1' }
      const resends = Array.from({ length: 30 }, () => resend(app, id, stranger))
      t.equal((await ask(app, LOGIN)).status, 202)
      for (const { status } of await Promise.all(resends)) t.equal(status, 410)
    })

    await t.test('one phone or mailbox gets no second code under another of its addresses', async t => {
      const app = await (await open(t)).start()
      t.equal((await ask(app, { phone: '+970 59 912 3456' })).status, 202)
      t.equal((await ask(app, { phone: '+972 59 912 3456' })).status, 429)
      t.equal((await askMail(app, 'janedoe@proton.me')).status, 202)
      t.equal((await askMail(app, 'jane_d.o-e@pm.me')).status, 429)
    })

    await t.test('no code is made twice, also when a resend fails', async t => {
      const place = await open(t)
      const sms = provider()
      const app = await place.start({}, { senders: { sms } })
      const { id } = (await ask(app)).body
      const codes = [sms.lastCode()]
      place.advance(60_000)
      sms.fail('failed')
      for (let i = 0; i < 3; i++) {
        t.equal((await resend(app, id)).status, 502)
        codes.push(sms.lastCode())
      }
      t.equal(new Set(codes).size, 4)
      t.equal((await verify(app, id, codes[0] as string)).status, 200)
    })

    await t.test(
      'visitors of pages share no Idempotency-Key, so that none learns the id of another',
      async t => {
        const app = await (await open(t)).start({ ACCOUNTS_FILE: accountsOf(t) })
        const by = (remoteAddress: string, origin = 'https://shop.example') =>
          app.inject({
            method: 'POST',
            url: '/v1/captcha',
            payload: { phone: PHONE, ...LOGIN },
            remoteAddress,
            headers: { origin, 'idempotency-key': '1' }
          })
        t.equal((await by('192.0.2.1')).statusCode, 202)
        t.match((await by('192.0.2.1')).headers, { 'idempotency-replayed': 'true' })
        t.equal((await by('192.0.2.2')).statusCode, 429)
        t.equal((await by('192.0.2.1', 'https://other.example')).statusCode, 429)
      }
    )

    await t.test('callers without a key share no Idempotency-Key, nor with the account', async t => {
      const app = await (await open(t)).start()
      const by = (remoteAddress: string, key = '') =>
        ask(app, {}, { remoteAddress, headers: { 'x-api-key': key, 'idempotency-key': '1' } })
      t.equal((await by('192.0.2.1')).status, 202)
      t.match((await by('192.0.2.1')).headers, { 'idempotency-replayed': 'true' })
      t.equal((await by('192.0.2.2')).status, 429)
      t.equal((await by('192.0.2.1', KEY)).status, 429)
    })

    await t.test('the audit trail tells of a cancel that came too late', async t => {
      const app = await (await open(t)).start()
      const { id } = (await ask(app)).body
      const events = heardOn(t, 'verification-api:audit')
      t.equal((await cancel(app, id)).status, 204)
      t.equal((await cancel(app, id)).status, 410)
      t.match(events, [
        { event: 'cancel', outcome: 'cancelled', purpose: 'register' },
        { event: 'cancel', outcome: 'ended', purpose: 'register' }
      ])
    })

    await t.test('for a concealed purpose no answer tells what a provider refuses', async t => {
      const purpose = 'reset-password'
      const walk = async (phone: string) => {
        const place = await open(t)
        const sms = provider()
        const app = await place.start({}, { senders: { sms } })
        await putOnList(app, 'blocked', '+8613900139000')
        const answers = []
        for (const outcome of ['refused', 'limited', 'unknown'] as const) {
          sms.fail(outcome)
          const { id } = (await ask(app, { purpose, phone })).body
          await app.unfinished()
          answers.push(await seen(app, id))
          answers.push((await ask(app, { purpose, phone })).status)
          place.advance(60_000)
          answers.push((await resend(app, id)).status)
          await app.unfinished()
          answers.push(await seen(app, id))
          place.advance(60_000)
        }
        return answers
      }
      t.same(await walk(PHONE), await walk('13900139000'))
    })
  })
}

/** A file of two accounts, whose pages may ask. */
function accountsOf(t: Parameters<typeof folderOf>[0]): string {
  const file = join(folderOf(t), 'accounts.json')
  const accounts = ['shop', 'other'].map((id, i) => ({
    id,
    keys: [`${i}`.repeat(64)],
    origins: [`https://${id}.example`]
  }))
  writeFileSync(file, JSON.stringify(accounts))
  return file
}

/** The answers to what may be asked of an id. */
async function seen(app: App, id: string) {
  const { recipient: _, id: __, ...how } = (await status(app, id)).body
  return [how, told(await verify(app, id, '000000'))]
}
