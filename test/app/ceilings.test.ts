import t from 'tap'
import { check } from '../../app/check.js'
import { loadPolicy, PolicySchema } from '../../app/policy.js'
import { ask, E164, verify, wrong } from './captcha.js'
import { type App, lastCode, places } from './helper.js'

const DAY_MINUTES = 1_440

/** Guesses at a code until it has ended, or guessing is refused. @returns how many guesses there were */
async function guess(app: App, id: string, remoteAddress: string): Promise<number> {
  for (let guesses = 0; ; guesses++) {
    const { status, body } = await verify(app, id, wrong(lastCode(app, E164)), {}, { remoteAddress })
    if (status !== 422) return guesses
    if (body.attemptsLeft === 0) return guesses + 1
  }
}

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    await t.test('fifty guesses a day at one recipient, from however many networks', async t => {
      const place = await open(t)
      const app = await place.start()
      let guesses = 0
      for (let minute = 0; minute < DAY_MINUTES; minute += 20) {
        const remoteAddress = `198.51.100.${minute / 20}`
        const { status, body } = await ask(app, {}, { remoteAddress })
        if (status === 202) guesses += await guess(app, body.id, remoteAddress)
        place.advance(20 * 60_000)
      }
      t.equal(guesses, 50)
    })

    await t.test('a hundred where codes are not counted, and then not the right one either', async t => {
      const place = await open(t)
      const app = await place.start()
      await app.lists.put(E164, { standing: 'allowed', masked: '+86*******8000' })
      let guesses = 0
      for (let network = 1; network <= 21; network++) {
        const remoteAddress = `198.51.100.${network}`
        const { id } = (await ask(app, {}, { remoteAddress })).body
        guesses += await guess(app, id, remoteAddress)
        place.advance(60_000)
      }
      t.equal(guesses, 100)
      const { id } = (await ask(app)).body
      t.match(await verify(app, id, lastCode(app, E164)), {
        status: 429,
        body: { 'violated-policies': ['verify-failures-recipient'] }
      })
      place.advance(DAY_MINUTES * 60_000)
      const next = (await ask(app)).body.id
      t.equal((await verify(app, next, lastCode(app, E164))).status, 200)
    })
  })
}

t.test('no policy lets a code live longer than ten minutes, or be tried more than ten times', async t => {
  const policy = loadPolicy()
  const withCode = (code: object) =>
    check(PolicySchema, { ...policy, code: { ...policy.code, ...code } }, 'policy.')
  t.doesNotThrow(() => withCode({ lifetimeSeconds: 600, tries: 10 }))
  t.throws(() => withCode({ lifetimeSeconds: 601 }), {
    message: /^policy\.code\.lifetimeSeconds \(601\) must be <= 600/
  })
  t.throws(() => withCode({ tries: 11 }), { message: /^policy\.code\.tries \(11\) must be <= 10/ })
})

t.test('six digits, five minutes and five tries, unless the policy says otherwise', async t => {
  t.match(loadPolicy().code, { digits: 6, lifetimeSeconds: 300, tries: 5 })
})
