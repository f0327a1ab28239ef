import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { ask, cancel, E164, verify, wrong } from './captcha.js'
import { lastCode, places } from './helper.js'

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

      const events = readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map(line => JSON.parse(line))
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
  })
}
