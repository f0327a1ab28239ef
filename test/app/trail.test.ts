import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs, { mkdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import type { AuditFact } from '../../app/audit/event.js'
import { openTrail } from '../../app/audit/trail.js'
import { root } from '../docs/blocks.js'
import { heardOn } from '../helper/channel.js'
import { folderOf } from '../helper/folder.js'
import { moduleOf } from '../helper/module.js'
import { until } from '../helper/until.js'
import { ask, linesOf, open } from './operating.js'

const sent: AuditFact = { event: 'send', sender: 'outbox', outcome: 'sent' }

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
  t.doesNotThrow(() => app.audit(sent), 'an event after the end breaks nothing')
})

t.test('a file that exists already is appended to', async t => {
  const file = join(folderOf(t), 'audit.log')
  writeFileSync(file, 'a line of before\n')
  const { app } = await open(t, { env: { AUDIT_LOG: file } })
  app.audit(sent)
  t.match(linesOf(file), ['a line of before', /"event":"send"/])
})

t.test('a file that everybody may read is warned of, and its mode is not changed', async t => {
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

/** The files that this process holds open. Linux only. */
function openFiles(): string[] {
  const links = fs.readdirSync('/proc/self/fd').map(fd => `/proc/self/fd/${fd}`)
  // The descriptor that listed them is closed by now.
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

t.test('a trail that cannot be written is logged once, and no request fails', async t => {
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
  t.notMatch(log.join(''), 'everybody on this machine', 'a device that everybody may read is not warned of')
})

t.test('a failure that follows a successful write is reported anew', async t => {
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

/** A named pipe, and a function that opens its reader: without one it cannot be opened to write. */
function pipeOf(t: Test) {
  const pipe = join(folderOf(t), 'audit.pipe')
  spawnSync('mkfifo', [pipe])
  return { pipe, reader: () => fs.openSync(pipe, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK) }
}

t.test('lines for a pipe that nobody reads wait for its next reader', async t => {
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

t.test('opening a pipe that nobody reads fails at once, at the start and on SIGHUP', async t => {
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

t.test('a file that cannot be opened anew is reported once, and the old one stays in use', async t => {
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

t.test('when too many lines wait, further ones are lost, and that is reported once', async t => {
  const errors: Error[] = []
  const trail = openTrail('/dev/full', error => errors.push(error as Error))
  const line = 'x'.repeat(10_000)
  for (let i = 0; i < 200; i++) trail.write(line)
  await trail.close()
  t.match(errors, [{ code: 'ENOSPC' }, { message: 'lines are lost: too many wait to be written' }])
  t.equal(errors.length, 2)
})

t.test('after lines were lost, a pipe that is read again gets the waiting and the next lines', async t => {
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
  t.equal(lines.filter(line => line === later).length, 99, 'the lines that come meanwhile are written, too')
  t.equal(new Set(lines).size, 2, 'all lines are whole')
  t.ok(
    lines.lastIndexOf(early) > 1_000 && lines.indexOf(later) > lines.lastIndexOf(early),
    'in the order in which they came'
  )
  t.equal(errors.length, 2, 'nothing is reported anew before all that waited is written')
})

t.test('lines that wait for a slow reader follow without a further line, and all at the end', async t => {
  const { pipe, reader } = pipeOf(t)
  const slow = reader()
  t.teardown(() => fs.closeSync(slow))
  const errors: unknown[] = []
  const trail = openTrail(pipe, error => errors.push(error))
  t.teardown(() => trail.close())
  // Lines so long that a pipe takes a part of one.
  const lines = Array.from({ length: 100 }, (_, i) => String(i).padStart(4_999, '.'))
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
  t.equal(text, lines.map(line => `${line}\n`).join(''), 'all lines come, though none was written after them')
  text = ''
  for (const line of lines) trail.write(line)
  const reading = setInterval(take, 20)
  await trail.close()
  clearInterval(reading)
  take()
  t.equal(text, lines.map(line => `${line}\n`).join(''), 'all lines come before the trail is closed')
  t.match(errors, [{ code: 'EAGAIN' }, { code: 'EAGAIN' }])
  t.equal(errors.length, 2, 'nothing is lost')
})

t.test('a pipe that stays full is tried again by one timer, and not after the end', async t => {
  const { pipe, reader } = pipeOf(t)
  const slow = reader()
  t.teardown(() => fs.closeSync(slow))
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const timers = t.capture(globalThis, 'setTimeout', globalThis.setTimeout)
  const errors: Error[] = []
  const trail = openTrail(pipe, error => errors.push(error as Error))
  for (let i = 0; i < 100; i++) trail.write('x'.repeat(4_999))
  t.equal(timers().length, 1)
  await trail.close()
  mock.timers.tick(50)
  t.match(errors, [
    { code: 'EAGAIN' },
    { message: 'lines are lost: they waited to be written until the end' }
  ])
  t.equal(errors.length, 2, 'nothing is written to what another file may have by then')
})

t.test('a line that broke off is ended before the next one is written', async t => {
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
  'a line begun before a rotation is whole in the new file, and lines after the end are reported',
  async t => {
    const { pipe: file, reader } = pipeOf(t)
    const slow = reader()
    t.teardown(() => fs.closeSync(slow))
    const errors: Error[] = []
    const trail = openTrail(file, error => errors.push(error as Error))
    // More than a pipe holds, in lines so long that it takes a part of one.
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
    t.equal(written.length, 10 - (before.length - 1), 'the line that was begun is among them')
    t.same(written, lines.slice(-written.length))
    await trail.close()
    trail.write('too late')
    t.match(errors.slice(1), [{ message: 'lines are lost: they came after the end' }])
  }
)

t.test('lines that wait at the end are written if they can be, else reported as lost', async t => {
  const errors: Error[] = []
  const full = openTrail('/dev/full', error => errors.push(error as Error))
  full.write('a line')
  await full.close()
  t.match(errors, [
    { code: 'ENOSPC' },
    { message: 'lines are lost: they waited to be written until the end' }
  ])

  const writer = moduleOf('app/lines/line-writer.ts').href
  // Once its `fd` was read, a standard output that nobody reads refuses data instead of blocking the process.
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
  const child = spawn(process.execPath, [...process.execArgv, '--input-type=module', '-e', script], {
    cwd: fileURLToPath(root),
    stdio: ['ignore', 'pipe', 'inherit', 'ipc']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [lines] = (await once(child, 'message')) as [number]
  let bytes = 0
  let ended = false
  child.stdout?.on('data', data => {
    bytes += data.length
    // Only once all is read: what was read ahead has made room long before.
    if (ended || bytes < (lines - 1) * 1_000) return
    ended = true
    child.send('end')
  })
  await once(child, 'close')
  t.equal(bytes, lines * 1_000)
})

t.test('a file that cannot be closed is reported, and delays neither the next nor the end', async t => {
  const file = join(folderOf(t), 'audit.log')
  const errors: unknown[] = []
  // Descriptors for the next files, so that none gets the number of a file that was taken away.
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

t.test('AUDIT_LOG=off writes no file, and the diagnostics channel still gets each event', async t => {
  const { app } = await open(t, { env: { AUDIT_LOG: 'off' } })
  const heard = heardOn(t, 'verification-api:audit')
  app.audit(sent)
  t.match(heard, [{ audit: 1, event: 'send' }])
})

t.test(
  'AUDIT_LOG=stdout writes the trail to where the log goes, with lines that can be told from its own',
  async t => {
    const log: string[] = []
    const before = process.listenerCount('SIGHUP')
    await open(t, { env: { AUDIT_LOG: '' }, log })
    t.notMatch(log.join(''), 'AUDIT_LOG', 'without AUDIT_LOG no trail goes to the log')
    const { app } = await open(t, { env: { AUDIT_LOG: 'stdout' }, log })
    t.match(log.join(''), 'AUDIT_LOG=stdout')
    app.audit(sent)
    t.match(log.at(-1), /^\{"audit":1,.*\}\n$/)
    t.equal(
      process.listenerCount('SIGHUP'),
      before,
      'SIGHUP is not listened to, as there is nothing to open anew'
    )
  }
)
