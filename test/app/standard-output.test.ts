import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { LineWriter } from '../../app/lines/line-writer.js'
import { scriptOf } from '../helper/module.js'
import { freePort } from '../helper/redis.js'
import { until } from '../helper/until.js'

const server = scriptOf('app/server.ts')
const KEY = 'k'.repeat(24)

/** The server in production, its log and its audit trail going to this standard output. */
async function run(t: Test, stdout: number | 'pipe') {
  const port = await freePort()
  const { PATH } = process.env
  const production = { NODE_ENV: 'production', API_KEYS: `${KEY}:shop`, AUDIT_LOG: 'stdout', PORT: `${port}` }
  const child = spawn(process.execPath, [...process.execArgv, server], {
    env: { PATH, ...production },
    stdio: ['ignore', stdout, 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const said: string[] = []
  child.stderr?.on('data', data => said.push(String(data)))
  const ended = Promise.all([once(child, 'exit'), once(child.stderr as Readable, 'close')]).then(
    ([[code, signal]]) => ({ code, signal })
  )
  const ask = () =>
    fetch(`http://127.0.0.1:${port}/v1/captcha`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': KEY },
      body: JSON.stringify({ phone: '13800138000', purpose: 'register' }),
      signal: AbortSignal.timeout(20_000)
    }).then(
      ({ status }) => status,
      error => String(error.cause?.code ?? error.name)
    )
  // There is no sender.
  await until(async () => (await ask()) === 503, 'an answer')
  return { child, port, ask, ended, said: () => said.join('') }
}

t.test('in production each line of standard output is JSON', async t => {
  const { child, ended } = await run(t, 'pipe')
  let said = ''
  child.stdout?.on('data', data => (said += data))
  child.kill('SIGTERM')
  t.match(await ended, { code: 0 })
  const lines = said
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  t.ok(lines.some(({ msg }) => /^Server listening at http:/.test(msg)))
  const completed = lines.find(({ msg }) => msg === 'request completed')
  t.match(completed, { res: { statusCode: 503, method: 'POST', route: '/v1/captcha' } })
  const [unsent] = lines.filter(({ msg }) => msg === 'not sent')
  t.match(unsent, { reqId: completed?.reqId, send: { code: 'NO_SENDER' } })
})

t.test('on a full disk requests go on, standard error says why once, and the server ends', async t => {
  const { child, ask, ended, said } = await run(t, openSync('/dev/full', 'w'))
  for (let i = 0; i < 5; i++) t.equal(await ask(), 503)
  child.kill('SIGTERM')
  t.match(await ended, { code: 0 })
  const [why, lost, ...more] = said()
    .split('\n')
    .filter(line => line.startsWith('standard output: '))
  t.match(why, 'ENOSPC')
  t.match(lost, 'lines are lost: they waited to be written until the end')
  t.same(more, [])
})

t.test('when nobody reads the log any more requests go on, and the server ends', async t => {
  const { child, port, ask, ended, said } = await run(t, 'pipe')
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  while (!said().includes('too many wait')) {
    socket.write('GET /nowhere HTTP/1.1\r\nHost: shop.example\r\n\r\n')
    await once(socket, 'data')
  }
  socket.destroy()
  t.equal(await ask(), 503)
  child.kill('SIGTERM')
  t.match(await ended, { code: 0 })
  t.match(said(), /^standard output: lines are lost: too many wait to be written$/m)
})

t.test('without readers of the log and standard error requests go on, and the server ends', async t => {
  const { child, ask, ended, said } = await run(t, 'pipe')
  child.stdout?.destroy()
  await until(async () => (await ask()) === 503 && said().includes('EPIPE'), 'word of it')
  child.stderr?.destroy()
  for (let i = 0; i < 5; i++) t.equal(await ask(), 503)
  child.kill('SIGTERM')
  t.match(await ended, { code: 0 })
})

t.test('a reader that is slow at first and then gone is reported as both', async t => {
  const pipe = join(t.testdir(), 'pipe')
  execFileSync('mkfifo', [pipe])
  const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK)
  const fd = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
  t.teardown(() => closeSync(fd))
  const codes: unknown[] = []
  const writer = new LineWriter(fd, error => codes.push((error as NodeJS.ErrnoException).code))
  while (codes.length === 0) writer.write(`${'.'.repeat(999)}\n`)
  closeSync(reader)
  for (let i = 0; i < 5; i++) writer.write('a line\n')
  t.same(codes, ['EAGAIN', 'EPIPE'])
  await writer.close()
})
