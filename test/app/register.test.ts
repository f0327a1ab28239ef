import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json, text as textOf } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { blocksOf } from '../docs/blocks.js'
import { createClock } from '../helper/clock.js'
import { folderOf } from '../helper/folder.js'
import { startRedis } from '../helper/redis.js'
import { without } from '../helper/without.js'
import { ask } from './captcha.js'
import { ADMIN_KEY, type App, post, startApp, withRules } from './helper.js'
import { listen } from './senders/servers.js'

const script = blocksOf('docs/runbook.md').find(({ use }) => use === 'recipients')?.text ?? ''
const skip = without('bash') || without('curl') || without('jq')

// So that a script may make more than 60 calls a minute.
const policy = withRules({ 'admin-attempts': { limits: [{ max: 1_000, window: '60s' }] } })

/** An app on a Redis of its own, as after one was lost. */
async function open(t: Test, env: NodeJS.ProcessEnv) {
  const { url } = await startRedis(t)
  const app = await startApp(t, { ADMIN_KEY, REDIS_URL: url, ...env }, { policy })
  await app.listen({ host: '127.0.0.1', port: 0 })
  return app
}

/** Runs the script `recipients` of docs/runbook.md. */
async function run({ server }: Pick<App, 'server'>, what: string, input = '', key = ADMIN_KEY, env = {}) {
  const { port } = server.address() as AddressInfo
  const text = script.replace('127.0.0.1:3001', `127.0.0.1:${port}`)
  // Without --norc a bash whose input is a socket, as here, takes itself for a remote login.
  const child = spawn('bash', ['--norc', '-c', text, 'recipients', what], {
    env: { PATH: process.env.PATH, ADMIN_KEY: key, ...env }
  })
  // A script that has failed reads no further.
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [out, error, [code]] = await Promise.all([
    textOf(child.stdout),
    textOf(child.stderr),
    once(child, 'close')
  ])
  return { out, error, code }
}

const lines = (out: string) =>
  out
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line))

t.test(
  'what the script exports, it imports after Redis was lost and LIMIT_SECRET changed',
  { skip },
  async t => {
    const RECIPIENT_SECRET = 'a secret that is kept'
    const before = await open(t, { LIMIT_SECRET: 'a secret of these tests', RECIPIENT_SECRET })
    const act = (action: string, payload: object) =>
      post(before, `/v1/admin/recipients/${action}`, payload, { headers: { 'x-admin-key': ADMIN_KEY } })
    for (let i = 0; i < 100; i++)
      await before.lists.put(before.recipientHash({ identity: `${i}` }), { standing: 'blocked' })
    await act('block', {
      phone: '13800138000',
      duration: '24h',
      reason: `said "no", 'no' and \\n no: $(不) `
    })
    await act('allow', { email: 'jane@example.com', reason: 'tests' })
    await act('allow', { phone: '13900139000', duration: '366d' })

    const exported = await run(before, 'export')
    t.match(exported, { code: 0, error: '' })
    const told = lines(exported.out)
    t.equal(told.length, 103)
    t.match(told[0], { recipient: '+86*******9000', standing: 'allowed', until: /Z$/ })

    const after = await open(t, { LIMIT_SECRET: 'another secret of these', RECIPIENT_SECRET })
    const ended = JSON.stringify({
      ...told[2],
      recipientHash: told[3].recipientHash,
      until: '2020-01-01T00:00:00.000Z'
    })
    const imported = await run(after, 'import', `${ended}\n${exported.out}`)
    t.same(imported, { code: 0, error: '', out: '' })
    const again = lines((await run(after, 'export')).out)
    const lasting = ({ recipientHash, standing, reason }: Record<string, string>) => ({
      recipientHash,
      standing,
      reason
    })
    t.same(again.map(lasting), told.map(lasting), 'all entries are imported, in their order')
    for (const [i, { until }] of told.entries()) {
      if (until === undefined) t.notOk('until' in again[i])
      else
        t.ok(
          Math.abs(Date.parse(again[i].until) - Date.parse(until)) < 60_000,
          `${again[i].until} for ${until}`
        )
    }
    t.equal((await ask(after)).status, 403)
    t.equal((await ask(after, { phone: '13900139000' })).status, 202)
  }
)

t.test('an entry that is imported after a wait ends no later', { skip }, async t => {
  const { clock, env, close } = createClock(folderOf(t), Date.UTC(2026, 2, 1))
  t.teardown(close)
  const durations: unknown[] = []
  const server = createServer(async (request, response) => {
    durations.push(((await json(request)) as { duration: string }).duration)
    clock.advance(3_600_000)
    response.end()
  })
  await listen(t, server)
  const line = JSON.stringify({
    recipientHash: 'A'.repeat(22),
    standing: 'blocked',
    until: '2026-03-01T02:00:00.000Z'
  })
  const imported = await run({ server }, 'import', `${line}\n`.repeat(3), ADMIN_KEY, env)
  t.same(imported, { code: 0, error: '', out: '' })
  t.same(durations, ['7200s', '3600s'], 'the third entry has ended meanwhile')
})

t.test('a script that has failed says so by its code and a message', { skip }, async t => {
  const app = await open(t, { LIMIT_SECRET: 'a secret of these tests' })
  t.same(await run(app, 'exprt'), { code: 2, out: '', error: 'recipients: export or import?\n' })
  t.match(await run(app, 'export', '', 'no key'), { code: 22, out: '', error: /401/ })
  const line = JSON.stringify({ recipientHash: app.recipientHash({ identity: 'a' }), standing: 'blocked' })
  t.match(await run(app, 'import', `${line}\n`, 'no key'), { code: 22, error: /401/ })
  t.not((await run(app, 'import', `{"recipientHash"\n${line}\n`)).code, 0)
  t.match(await run(app, 'import', `${line.replace('"blocked"', '"locked"')}\n`), { code: 22, error: /404/ })
})
