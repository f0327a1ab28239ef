import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { Check } from 'typebox/value'
import { AuditEventSchema } from '../../app/audit/event.js'
import { problem } from '../../app/problem.js'
import { ask, cancel, E164, verify, wrong } from './captcha.js'
import { lastCode, places } from './helper.js'

const eventsOf = (file: string) =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('each try of a code is in the audit trail', async t => {
      const folder = mkdtempSync(join(tmpdir(), 'send-limit-tries-'))
      t.teardown(() => rmSync(folder, { recursive: true }))
      const file = join(folder, 'audit.log')
      const place = await open(t)
      const app = await place.start({ AUDIT_LOG: file })
      const { id } = (await ask(app)).body
      const code = lastCode(app, E164)
      await verify(app, id, wrong(code))
      await verify(app, id, code, { purpose: 'login' })
      await verify(app, id, code)
      await verify(app, id, code)
      await verify(app, 'A'.repeat(22), code)
      place.advance(60_000)
      await cancel(app, (await ask(app)).body.id)

      const events = eventsOf(file)
      const told = events.map(({ event, outcome, attemptsLeft }) => ({ event, outcome, attemptsLeft }))
      t.same(told, [
        { event: 'send', outcome: 'sent', attemptsLeft: undefined },
        { event: 'verification', outcome: 'wrong', attemptsLeft: 4 },
        { event: 'verification', outcome: 'wrong', attemptsLeft: 3 },
        { event: 'verification', outcome: 'verified', attemptsLeft: 3 },
        { event: 'verification', outcome: 'ended', attemptsLeft: 0 },
        { event: 'verification', outcome: 'ended', attemptsLeft: 0 },
        { event: 'send', outcome: 'sent', attemptsLeft: undefined },
        { event: 'cancel', outcome: 'cancelled', attemptsLeft: undefined }
      ])
      const own = { purpose: 'register', channel: 'sms', recipient: '+86*******8000' }
      for (const event of events.slice(0, 5)) t.match(event, own)
      t.notOk('recipient' in events[5], 'of an unknown id nobody is known')
    })

    await t.test('what may have been done all the same is unknown there', async t => {
      const folder = mkdtempSync(join(tmpdir(), 'send-limit-tries-'))
      t.teardown(() => rmSync(folder, { recursive: true }))
      const file = join(folder, 'audit.log')
      const app = await (await open(t)).start({ AUDIT_LOG: file })
      const { id } = (await ask(app)).body
      const late = async () => {
        throw problem(503, 'CODES_UNAVAILABLE', 'Codes can be neither kept nor checked now.')
      }
      Object.assign(app.captchas, { check: late, cancel: late })
      t.equal((await verify(app, id, lastCode(app, E164))).status, 503)
      t.equal((await cancel(app, id)).status, 503)
      const own = { outcome: 'unknown', purpose: 'register', recipient: '+86*******8000' }
      const events = eventsOf(file)
      t.match(events.slice(1), [
        { event: 'verification', ...own },
        { event: 'cancel', ...own }
      ])
      t.equal(events.length, 3)
      for (const event of events) t.ok(Check(AuditEventSchema, event), JSON.stringify(event))
    })
  })
}
