import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs, { mkdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { Check } from 'typebox/value'
import { openAccounts } from '../../app/accounts/accounts.js'
import { costOf, type Prices, PricesSchema } from '../../app/audit/cost.js'
import { type AuditEvent, AuditEventSchema, type AuditFact } from '../../app/audit/event.js'
import { refusalOf } from '../../app/audit/refusal.js'
import { openTrail } from '../../app/audit/trail.js'
import { readConfig } from '../../app/config.js'
import { recipientOf } from '../../app/recipient.js'
import { LookupAnswer } from '../../app/schemas/admin.js'
import type { DecisionEvent, Rule } from '../../plugin/index.js'
import { blocksOf, read, root } from '../docs/blocks.js'
import { heardOn } from '../helper/channel.js'
import { folderOf } from '../helper/folder.js'
import { typescript } from '../helper/typescript.js'
import { until } from '../helper/until.js'
import { ask, linesOf, open, REGION } from './operating.js'

const START = Date.UTC(2026, 2, 1)
const clock = { monotonic: () => 0, wall: () => START }
const someone = recipientOf({ email: 'Some.One@gmail.com' }, REGION)
const number = recipientOf({ phone: '13800138000' }, REGION)
const prices: Prices = {
  currency: 'CNY',
  sms: { default: 0.5, '86': 0.045, '1': 0.06, '1876': 0.1, '3706123': 0.2 },
  mail: 0.001
}
const sent: AuditFact = { event: 'send', sender: 'outbox', outcome: 'sent', segments: 2, latencyMs: 5 }

const examples = blocksOf('docs/operation.md')
const blockOf = (use: string) =>
  examples.find(block => block.use === use || block.needs.includes(use))?.text ?? ''

t.test('one example of each event is as the schema says', async t => {
  const lines = blockOf('audit').trim().split('\n')
  const events = lines.map(line => JSON.parse(line) as AuditEvent)
  for (const [i, event] of events.entries()) {
    t.ok(Check(AuditEventSchema, event), String(lines[i]))
    t.notOk(Check(AuditEventSchema, { ...event, phone: '1' }), 'and nothing else')
    t.ok(lines[i]?.startsWith('{"audit":1,'))
  }
  const kinds = AuditEventSchema.anyOf.map(each => each.properties.event.const)
  t.same([...new Set(events.map(({ event }) => event))].sort(), kinds.sort())
  t.ok(Check(PricesSchema, JSON.parse(blockOf('prices'))))
  // Formats are the validator's business; there it is strings.
  t.ok(Check(LookupAnswer, JSON.parse(blockOf('lookup'))))
})

t.test('the page names every member', async t => {
  const [, table = ''] = read('docs/operation.md').split('### Members')
  const rows = [...table.matchAll(/^\| (`\w+`(?:, `\w+`)*) \|/gm)]
  const named = new Set(rows.flatMap(([, names = '']) => [...names.matchAll(/\w+/g)].map(([name]) => name)))
  const members = new Set(AuditEventSchema.anyOf.flatMap(each => Object.keys(each.properties)))
  t.same([...named].sort(), [...members].sort())
})

t.test('the accounts of the page are read', async t => {
  const file = join(folderOf(t), 'accounts.json')
  writeFileSync(file, blockOf('accounts'))
  const accounts = openAccounts(readConfig({ ACCOUNTS_FILE: file }))
  t.match(accounts.listed, [{ id: 'shop', dailyQuota: 5_000 }])
  t.ok(accounts.byOrigin('https://shop.example'))
})

t.test('what is told is filled in', async t => {
  const { app, events, file } = await open(t, {
    clock,
    prices,
    env: { API_KEYS: 'key-of-shop:shop' },
    routes: app =>
      app.post('/send', { preParsing: app.authenticate }, async request => {
        request.recipient = number
        app.audit({ ...sent, purpose: 'login' }, request)
        app.audit({ ...sent, outcome: 'unknown' }, request)
        app.audit({ ...sent, outcome: 'failed', code: 'EAUTH' }, request)
        app.audit({ ...sent, outcome: 'sent', segments: 1 }, request, someone)
        app.audit({ event: 'reload', outcome: 'replaced', actor: 'signal' })
        return {}
      })
  })
  const headers = { 'x-api-key': 'key-of-shop' }
  await ask(app, 'POST', '/send', { headers })
  const told = events()
  for (const event of told) t.ok(Check(AuditEventSchema, event), JSON.stringify(event))
  const { network, requestId } = told[0] as AuditEvent
  t.match(network, /^[\w-]{22}$/)
  t.type(requestId, 'string')
  t.match(told[0], {
    audit: 1,
    time: '2026-03-01T00:00:00.000Z',
    account: 'shop',
    channel: 'sms',
    country: 'CN',
    recipient: '+86*******8000',
    purpose: 'login',
    cost: { amount: 0.09, currency: 'CNY' }
  })
  t.match(told[1], { cost: { amount: 0.09 }, network, requestId })
  t.notOk('cost' in (told[2] as AuditEvent), 'what did not go out costs nothing')
  t.match(told[3], { channel: 'mail', recipient: 'S***@gmail.com', cost: { amount: 0.001 } })
  t.notOk('country' in (told[3] as AuditEvent), 'a mail has none')
  t.not(told[3]?.recipientHash, told[0]?.recipientHash)
  t.same(Object.keys(told[4] as object).sort(), ['actor', 'audit', 'event', 'outcome', 'time'])
  t.notMatch(linesOf(file).join('\n'), /13800138000|some\.?one|192\.0\.2|key-of-shop/i)
  t.equal(statSync(file).mode & 0o777, 0o600)

  app.audit(sent, null, recipientOf({ email: 'someone+tag@gmail.com' }, REGION))
  t.equal(events()[5]?.recipientHash, told[3]?.recipientHash, 'same person, same hash')
  app.audit({ event: 'send', sender: 'outbox', outcome: 'sent' }, null, someone)
  t.match(events()[6], { cost: { amount: 0.001 } }, 'a mail is one, without segments')
})

const rule: Rule = { name: 'ip', key: 'ip', limits: [{ max: 1, window: '60s' }] }
const early: Rule = { name: 'early', key: 'ip', counts: 'attempts', limits: [{ max: 3, window: '60s' }] }

t.test('refusals', async t => {
  const { app, events } = await open(t, {
    clock,
    rules: [rule, early],
    routes: (app: FastifyInstance) =>
      app.post(
        '/send',
        {
          config: { limit: ['early', 'ip'] },
          preHandler: async request => {
            request.purpose = 'login'
            request.endUserIp = '198.51.100.7'
          }
        },
        async () => ({})
      )
  })
  for (let i = 0; i < 4; i++) await ask(app, 'POST', '/send')
  const refused = { event: 'refusal', outcome: 'exceeded', retryAfterMs: 60_000, network: /./ }
  t.match(events(), [
    { ...refused, stage: 'sends', rules: ['ip'], purpose: 'login' },
    { ...refused, stage: 'sends', rules: ['ip'] },
    { ...refused, stage: 'attempts', rules: ['early'] }
  ])
  t.equal(events().length, 3, 'what is admitted is no event by itself')
  for (const event of events()) t.ok(Check(AuditEventSchema, event), JSON.stringify(event))
  t.equal((await app.limit.reserve({ ip: '192.0.2.1' })).allowed, false)
  t.notOk('requestId' in (events()[3] as AuditEvent), 'nor needs there be a request')
})

t.test('cost', async t => {
  const cost = (to: string, segments = 1) => costOf('sms', to, segments, prices)?.amount
  t.equal(cost('+8613800138000'), 0.045)
  t.equal(cost('+8613800138000', 3), 0.135, 'without the noise of floating point')
  t.equal(cost('+12125550100'), 0.06)
  t.equal(cost('+18765550100'), 0.1, 'the longest prefix')
  t.equal(cost('+37061234567'), 0.2, 'of seven digits at most')
  t.equal(cost('+4915112345678', 2), 1, 'else the default')
  t.equal(costOf('mail', 'constructor@example.com', 1, prices)?.amount, 0.001)
  t.equal(costOf('sms', '+491', 1, { currency: 'EUR', sms: { '86': 1 } }), undefined)
  t.equal(costOf('mail', 'a@b.example', 1, { currency: 'EUR' }), undefined)
  t.equal(costOf('sms', '+861', 1, undefined), undefined)
  t.equal(costOf('sms', '+861', 1, { currency: 'EUR', mail: 1 }), undefined)
  t.equal(costOf('sms', '+861', 1, { currency: 'EUR', sms: { default: 1, '86': 0 } })?.amount, 0)
  t.ok(Check(PricesSchema, prices))
  t.equal(costOf('sms', '+861', 3, { currency: 'EUR', sms: { '86': 0.0000005 } })?.amount, 0.0000015)
  for (const wrong of [
    {},
    { currency: 'yuan' },
    { currency: 'CNY', sms: { '+86': 1 } },
    { currency: 'CNY', sms: { '086': 1 } },
    { currency: 'CNY', sms: { '12345678': 1 } },
    { currency: 'CNY', mail: -1 }
  ])
    t.notOk(Check(PricesSchema, wrong), JSON.stringify(wrong))
})

t.test('a file that is renamed away is opened anew on SIGHUP', async t => {
  const { app, file } = await open(t)
  app.audit(sent)
  renameSync(file, `${file}.1`)
  app.audit(sent)
  t.equal(linesOf(`${file}.1`).length, 2)
  process.emit('SIGHUP')
  app.audit(sent)
  t.equal(linesOf(`${file}.1`).length, 2)
  t.equal(linesOf(file).length, 1)
  const before = process.listenerCount('SIGHUP')
  await app.close()
  t.equal(process.listenerCount('SIGHUP'), before - 1)
  t.doesNotThrow(() => app.audit(sent), 'nor does what comes after the end break anything')
})

t.test('a file that is there already is written on', async t => {
  const file = join(folderOf(t), 'audit.log')
  writeFileSync(file, 'a line of before\n')
  const { app } = await open(t, { env: { AUDIT_LOG: file } })
  app.audit(sent)
  t.match(linesOf(file), ['a line of before', /"event":"send"/])
})

t.test('a file that everybody may read is warned of, and stays so', async t => {
  const file = join(folderOf(t), 'audit.log')
  writeFileSync(file, '')
  for (const [mode, warned] of [
    [0o644, true],
    [0o640, false],
    [0o600, false]
  ] as const) {
    fs.chmodSync(file, mode)
    const log: string[] = []
    await open(t, { env: { AUDIT_LOG: file }, log })
    t.equal(/everybody on this machine/.test(log.join('')), warned, mode.toString(8))
    t.equal(statSync(file).mode & 0o777, mode)
  }
})

t.test('a refusal says which kind it is, each rule once, and what was to be sent', async t => {
  const violated = [{ rule: 'a' }, { rule: 'a' }, { rule: 'b' }]
  const event = { stage: 'sends', refusal: 'in-flight', retryAfterMs: 5, violated }
  const told = (request: object) =>
    refusalOf(event as unknown as DecisionEvent, request as unknown as FastifyRequest)
  t.same(told({ purpose: null, message: { template: 'welcome' } }), {
    event: 'refusal',
    stage: 'sends',
    outcome: 'in-flight',
    rules: ['a', 'b'],
    retryAfterMs: 5,
    template: 'welcome'
  })
  t.match(told({ purpose: null, captcha: { purpose: 'login' } }), { purpose: 'login' })
  t.match(told({ purpose: 'register', captcha: null }), { purpose: 'register' })
})

/** What this process holds open. Linux only. */
function openFiles(): string[] {
  const links = fs.readdirSync('/proc/self/fd').map(fd => `/proc/self/fd/${fd}`)
  // The one that lists them is gone by now.
  return links.filter(link => fs.existsSync(link)).map(link => fs.readlinkSync(link))
}

t.test('a file that was rotated is closed, also after a rotation that failed', async t => {
  const folder = join(folderOf(t), 'logs')
  mkdirSync(folder)
  const { app } = await open(t, { env: { AUDIT_LOG: join(folder, 'audit.log') } })
  renameSync(folder, `${folder}.1`)
  process.emit('SIGHUP')
  mkdirSync(folder)
  process.emit('SIGHUP')
  await turn()
  app.audit(sent)
  t.equal(linesOf(join(folder, 'audit.log')).length, 1)
  const held = () => openFiles().filter(file => file.startsWith(folder))
  t.same(held(), [join(folder, 'audit.log')])
  await app.close()
  t.same(held(), [])
})

t.test('what cannot be written is told in the log, once, and breaks nothing', async t => {
  const log: string[] = []
  const { app } = await open(t, {
    env: { AUDIT_LOG: '/dev/full' },
    log,
    routes: app =>
      app.post('/send', async request => {
        app.audit(sent, request)
        return {}
      })
  })
  for (let i = 0; i < 3; i++) t.equal((await ask(app, 'POST', '/send')).status, 200)
  const errors = log.filter(line => line.includes('the audit trail cannot be written'))
  t.equal(errors.length, 1)
  t.match(errors[0], 'ENOSPC')
  t.notMatch(log.join(''), 'everybody on this machine', 'a device keeps nothing')
})

t.test('what cannot be told breaks nothing either', async t => {
  const log: string[] = []
  let wall = START
  const { app, events } = await open(t, { clock: { ...clock, wall: () => wall }, log })
  wall = Number.NaN
  t.doesNotThrow(() => app.audit(sent))
  t.match(log.join(''), 'the audit trail cannot be written')
  t.same(events(), [])
})

t.test('once it was written again, the next failure is told anew', async t => {
  const file = join(folderOf(t), 'audit.log')
  const errors: unknown[] = []
  symlinkSync('/dev/full', file)
  const trail = openTrail(file, error => errors.push(error))
  t.teardown(() => trail.close())
  for (const told of [1, 2]) {
    trail.write('a line')
    trail.write('a line')
    t.equal(errors.length, told)
    rmSync(file)
    process.emit('SIGHUP')
    trail.write('a line')
    t.equal(linesOf(file).length, 3)
    rmSync(file)
    symlinkSync('/dev/full', file)
    process.emit('SIGHUP')
  }
})

/** A named pipe, and how to read it: without a reader nobody can begin to write. */
function pipeOf(t: Test) {
  const pipe = join(folderOf(t), 'audit.pipe')
  spawnSync('mkfifo', [pipe])
  return { pipe, reader: () => fs.openSync(pipe, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK) }
}

t.test('the lines of a pipe that nobody reads wait for the next who does', async t => {
  const { pipe, reader } = pipeOf(t)
  const first = reader()
  const errors: unknown[] = []
  const trail = openTrail(pipe, error => errors.push(error))
  t.teardown(() => trail.close())
  fs.closeSync(first)
  trail.write('a line')
  t.match(errors, [{ code: 'EPIPE' }])
  const next = reader()
  t.teardown(() => fs.closeSync(next))
  trail.write('another one')
  const read = Buffer.alloc(100)
  t.equal(read.toString('utf8', 0, fs.readSync(next, read)), 'a line\nanother one\n')
  t.equal(errors.length, 1)
})

t.test('a pipe that nobody reads is not waited for', async t => {
  const { pipe, reader } = pipeOf(t)
  t.throws(() => openTrail(pipe, () => {}), { name: 'ConfigError', message: /AUDIT_LOG .*: ENXIO/ })
  const first = reader()
  const errors: unknown[] = []
  const trail = openTrail(pipe, error => errors.push(error))
  t.teardown(() => trail.close())
  fs.closeSync(first)
  process.emit('SIGHUP')
  await turn()
  t.match(errors, [{ code: 'ENXIO' }])
  t.equal(errors.length, 1)
})

t.test('a file that cannot be opened anew is told once, and the old one is written on', async t => {
  const folder = join(folderOf(t), 'logs')
  mkdirSync(folder)
  const errors: unknown[] = []
  const trail = openTrail(join(folder, 'audit.log'), error => errors.push(error))
  t.teardown(() => trail.close())
  renameSync(folder, `${folder}.1`)
  process.emit('SIGHUP')
  await turn()
  t.match(errors, [{ code: 'ENOENT' }])
  t.equal(errors.length, 1)
  trail.write('a line')
  t.same(linesOf(join(`${folder}.1`, 'audit.log')), ['a line'])
})

t.test('what waits is bounded: beyond it lines are lost, and that is told once', async t => {
  const errors: Error[] = []
  const trail = openTrail('/dev/full', error => errors.push(error as Error))
  const line = 'x'.repeat(10_000)
  for (let i = 0; i < 200; i++) trail.write(line)
  await trail.close()
  t.match(errors, [{ code: 'ENOSPC' }, { message: 'lines are lost: too many wait to be written' }])
  t.equal(errors.length, 2)
})

t.test('what works again is written on, also when no more lines could wait', async t => {
  const { pipe, reader } = pipeOf(t)
  const slow = reader()
  t.teardown(() => fs.closeSync(slow))
  const errors: Error[] = []
  const trail = openTrail(pipe, error => errors.push(error as Error))
  t.teardown(() => trail.close())
  const [early, later] = ['x'.repeat(999), 'y'.repeat(999)]
  for (let i = 0; i < 1_500; i++) trail.write(early)
  t.match(errors, [{ code: 'EAGAIN' }, { message: 'lines are lost: too many wait to be written' }])
  const room = Buffer.alloc(1_048_576)
  let text = ''
  for (let i = 0; i < 100; i++) {
    text += room.toString('utf8', 0, fs.readSync(slow, room))
    trail.write(later)
  }
  const lines = text.split('\n').slice(0, -1)
  t.equal(lines.filter(line => line === later).length, 99, 'those that come meanwhile, too')
  t.equal(new Set(lines).size, 2, 'all are whole')
  t.ok(lines.lastIndexOf(early) > 1_000 && lines.indexOf(later) > lines.lastIndexOf(early), 'in their order')
  t.equal(errors.length, 2, 'nothing is told anew before all that waited is written')
})

t.test('what a slow reader left waiting comes without another line, and all of it at the end', async t => {
  const { pipe, reader } = pipeOf(t)
  const slow = reader()
  t.teardown(() => fs.closeSync(slow))
  const errors: unknown[] = []
  const trail = openTrail(pipe, error => errors.push(error))
  t.teardown(() => trail.close())
  const lines = Array.from({ length: 500 }, (_, i) => String(i).padStart(999, '.'))
  let text = ''
  const room = Buffer.alloc(1_048_576)
  const take = () => {
    try {
      text += room.toString('utf8', 0, fs.readSync(slow, room))
    } catch {}
  }
  for (const line of lines) trail.write(line)
  await until(() => {
    take()
    return text.length >= 500_000
  }, 'all lines')
  t.equal(text, lines.map(line => `${line}\n`).join(''), 'nobody wrote another line')
  text = ''
  for (const line of lines) trail.write(line)
  const reading = setInterval(take, 20)
  await trail.close()
  clearInterval(reading)
  take()
  t.equal(text, lines.map(line => `${line}\n`).join(''), 'the reader was there')
  t.match(errors, [{ code: 'EAGAIN' }, { code: 'EAGAIN' }])
  t.equal(errors.length, 2, 'nothing is lost')
})

t.test('no line is joined to one that broke off', async t => {
  const file = join(folderOf(t), 'audit.log')
  writeFileSync(file, 'a line\nhalf a li')
  for (const more of [[], ['next'], ['next', 'next']]) {
    const trail = openTrail(file, error => t.fail(String(error)))
    t.same(linesOf(file), ['a line', ...(more.length > 0 ? ['half a li', ...more] : [])])
    trail.write('next')
    await trail.close()
    await trail.close()
  }
  t.same(
    openFiles().filter(each => each === file),
    []
  )
})

t.test(
  'what was begun before a rotation stands whole behind it, and what comes after the end is told',
  async t => {
    const { pipe: file, reader } = pipeOf(t)
    const slow = reader()
    t.teardown(() => fs.closeSync(slow))
    const errors: Error[] = []
    const trail = openTrail(file, error => errors.push(error as Error))
    // More than a pipe holds, of lines of which it takes a part.
    const lines = Array.from({ length: 10 }, (_, i) => `${i}`.repeat(9_999))
    for (const line of lines) trail.write(line)
    t.match(errors, [{ code: 'EAGAIN' }])
    renameSync(file, `${file}.1`)
    writeFileSync(file, 'half a li')
    process.emit('SIGHUP')
    const [half, ...written] = linesOf(file)
    t.equal(half, 'half a li')
    const room = Buffer.alloc(1_048_576)
    const before = room.toString('utf8', 0, fs.readSync(slow, room)).split('\n')
    t.ok(before.length > 1 && before.at(-1) !== '')
    t.equal(written.length, 10 - (before.length - 1), 'the one that was begun among them')
    t.same(written, lines.slice(-written.length))
    await trail.close()
    trail.write('too late')
    t.match(errors.slice(1), [{ message: 'lines are lost: they came after the end' }])
  }
)

t.test('what waits at the end is written if it can be, else it is told that it is lost', async t => {
  const errors: Error[] = []
  const full = openTrail('/dev/full', error => errors.push(error as Error))
  full.write('a line')
  await full.close()
  t.match(errors, [
    { code: 'ENOSPC' },
    { message: 'lines are lost: they waited to be written until the end' }
  ])

  const writer = fileURLToPath(new URL('app/lines/line-writer.ts', root))
  // Once it was looked at, a standard output that nobody reads takes no more instead of making the process wait.
  const script = `import { once } from 'node:events'
import { LineWriter } from ${JSON.stringify(writer)}
process.stdout.fd
let full = false
const writer = new LineWriter(1, error => { full = true; console.error(error.message) })
let lines = 0
while (!full) writer.write(String(lines++).padStart(999, '.') + '\\n')
process.send(lines)
await once(process, 'message')
await writer.close()
process.disconnect()`
  const child = spawn(process.execPath, [...typescript, '--input-type=module', '-e', script], {
    cwd: fileURLToPath(root),
    stdio: ['ignore', 'pipe', 'inherit', 'ipc']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [lines] = (await once(child, 'message')) as [number]
  let bytes = 0
  let ended = false
  child.stdout?.on('data', data => {
    bytes += data.length
    // Not before all is read: what was read ahead made its room long ago.
    if (ended || bytes < (lines - 1) * 1_000) return
    ended = true
    child.send('end')
  })
  await once(child, 'close')
  t.equal(bytes, lines * 1_000)
})

t.test('a file that cannot be closed is told, and holds up neither the next one nor the end', async t => {
  const file = join(folderOf(t), 'audit.log')
  const errors: unknown[] = []
  // Where the next file opens, so that none stands where the one before was taken away.
  const places = [1, 2].map(() => fs.openSync('/dev/null', 'r'))
  const trail = openTrail(file, error => errors.push(error))
  const takeAway = () => {
    for (const fd of fs.readdirSync('/proc/self/fd').map(Number))
      if (fs.existsSync(`/proc/self/fd/${fd}`) && fs.readlinkSync(`/proc/self/fd/${fd}`) === file)
        fs.closeSync(fd)
  }
  for (const place of places) fs.closeSync(place)
  takeAway()
  process.emit('SIGHUP')
  t.match(errors, [{ code: 'EBADF', syscall: 'close' }])
  trail.write('a line')
  t.same(linesOf(file), ['a line'])
  takeAway()
  await trail.close()
  t.match(errors, [{}, { code: 'EBADF', syscall: 'close' }])
})

t.test('a file that cannot be opened ends the start', async t => {
  await t.rejects(open(t, { env: { AUDIT_LOG: '/nowhere/audit.log' } }), {
    name: 'ConfigError',
    message: 'AUDIT_LOG ("/nowhere/audit.log") cannot be written: ENOENT.'
  })
})

t.test('off writes nowhere, and the channel hears all the same', async t => {
  const { app } = await open(t, { env: { AUDIT_LOG: 'off' } })
  const heard = heardOn(t, 'verification-api:audit')
  app.audit(sent)
  t.match(heard, [{ audit: 1, event: 'send' }])
})

t.test(
  'stdout: the trail goes where the log goes, and its lines can be told from those of the log',
  async t => {
    const log: string[] = []
    const before = process.listenerCount('SIGHUP')
    await open(t, { env: { AUDIT_LOG: '' }, log })
    t.notMatch(log.join(''), 'AUDIT_LOG', 'none goes there unless it is said')
    const { app } = await open(t, { env: { AUDIT_LOG: 'stdout' }, log })
    t.match(log.join(''), 'AUDIT_LOG=stdout')
    app.audit(sent)
    t.match(log.at(-1), /^\{"audit":1,.*\}\n$/)
    t.equal(process.listenerCount('SIGHUP'), before, 'there is nothing to open anew')
  }
)
