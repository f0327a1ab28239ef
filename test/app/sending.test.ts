import t from 'tap'
import { type Receipt, SendError, type Sender } from '../../app/senders/sender.js'
import { type App, lastCode, places, post } from './helper.js'

const ask = (app: App) => post(app, '/v1/captcha', { phone: '13800138000', purpose: 'login' })

const verify = (app: App, id: string, code: string) => post(app, '/v1/captcha/verify', { id, code })
const codeIn = (texts: string[]) => /\d{6}/.exec(texts.at(-1) ?? '')?.[0] ?? ''

/** The ids that are made from here on, answered or not. */
function spyOn(app: App): string[] {
  const ids: string[] = []
  const { start } = app.captchas
  app.captchas.start = async asked => {
    const issued = await start(asked)
    ids.push(issued.id)
    return issued
  }
  return ids
}

/** A provider that does what it is told. */
function provider() {
  const texts: string[] = []
  const told = {
    name: 'told',
    texts,
    does: async (_signal: AbortSignal): Promise<void> => {},
    async send({ text }, signal): Promise<Receipt> {
      texts.push(text)
      await told.does(signal)
      return { sender: 'told' }
    }
  } satisfies Sender & Record<string, unknown>
  return told
}

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    const sms = provider()
    const start = async (t: Parameters<typeof open>[0]) =>
      (await open(t)).start({ SEND_TIMEOUT: '100' }, { senders: { sms } })

    await t.test('a sender that fails costs nothing, and its code is ended', async t => {
      const app = await start(t)
      sms.does = async () => {
        throw new Error('refused')
      }
      const ids = spyOn(app)
      t.match(await ask(app), { status: 502, body: { code: 'SEND_FAILED' } })
      const [id = ''] = ids
      t.equal((await verify(app, id, codeIn(sms.texts))).status, 422)
      sms.does = async () => {}
      t.equal((await ask(app)).status, 202)
    })

    await t.test(
      'a sender that hangs is not refunded, hears of it, and a code that arrives works',
      async t => {
        const app = await start(t)
        let aborted = false
        sms.does = signal => new Promise(() => signal.addEventListener('abort', () => void (aborted = true)))
        const unknown = await ask(app)
        t.match(unknown, { status: 504, body: { code: 'SEND_UNKNOWN' } })
        t.equal(aborted, true)
        t.equal((await verify(app, unknown.body.id, codeIn(sms.texts))).status, 200)
        t.match(await ask(app), { status: 429, body: { 'violated-policies': ['recipient-60s'] } })
      }
    )

    await t.test('a sender that does not know is not refunded', async t => {
      const app = await start(t)
      sms.does = async () => {
        throw new SendError('unknown')
      }
      t.equal((await ask(app)).status, 504)
      t.equal((await ask(app)).status, 429)
    })

    await t.test('failures of the sender, one after another, never become a 429', async t => {
      const app = await start(t)
      sms.does = async () => {
        throw new Error('refused')
      }
      for (let i = 0; i < 30; i++) t.equal((await ask(app)).status, 502)
    })

    await t.test('50 at once make one message', async t => {
      const app = await start(t)
      sms.texts.length = 0
      sms.does = async () => {}
      const all = await Promise.all(Array.from({ length: 50 }, () => ask(app)))
      t.equal(sms.texts.length, 1)
      t.equal(all.filter(({ status }) => status === 202).length, 1)
      t.ok(all.every(({ status }) => [202, 409, 429].includes(status)))
    })
  })
}

t.test('the outbox shows the newest first', async t => {
  const lines: string[] = []
  const app = await (await places.memory(t)).start({}, { print: line => lines.push(line) })
  await ask(app)
  await post(app, '/v1/mail', { to: 'a@example.com', template: 'password-changed' })
  const { messages } = (await app.inject('/v1/dev/outbox')).json()
  t.match(messages, [
    { channel: 'mail', to: 'a@example.com', subject: 'Your password was changed' },
    { channel: 'sms', to: '+8613800138000' }
  ])
  t.match(lines[0], new RegExp(`^sms to \\+8613800138000: ${lastCode(app, '+8613800138000')} is your code`))
})

t.test('no outbox when it is switched off', async t => {
  const app = await (await places.memory(t)).start({ DEV_OUTBOX: 'off' })
  t.equal((await app.inject('/v1/dev/outbox')).statusCode, 404)
  t.equal((await ask(app)).status, 503)
})
