import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import t from 'tap'
import { isAlive } from './is-alive.js'
import { moduleOf } from './module.js'
import { startRedis } from './redis.js'
import { until } from './until.js'

const START_MS = Date.UTC(2026, 2, 1)

async function time(client: Redis): Promise<number> {
  const [seconds, micros] = await client.time()
  return Number(seconds) * 1_000 + Number(micros) / 1_000
}

// Asks the port: after a process is killed, its new parent may leave its entry in the process table.
function listens(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => resolve(false))
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}

t.test('a real server answers at its url', async t => {
  const { url, port, pid } = await startRedis(t)
  const client = new Redis(url)
  t.teardown(() => client.disconnect())
  t.equal(await client.ping(), 'PONG')
  const info = await client.info()
  t.match(info, `process_id:${pid}`)
  t.match(info, `tcp_port:${port}`)
  t.match(await client.config('GET', 'save'), ['save', ''])
  t.match(await client.config('GET', 'appendonly'), ['appendonly', 'no'])
})

t.test('takes more of the command line', async t => {
  const { client } = await startRedis(t, { args: ['--maxmemory-policy', 'allkeys-lru'] })
  t.match(await client.config('GET', 'maxmemory-policy'), ['maxmemory-policy', 'allkeys-lru'])
})

t.test('time stands still until it is moved', async t => {
  const { client, clock } = await startRedis(t, { clock: true })
  t.equal(await time(client), START_MS)
  await client.ping()
  t.equal(await time(client), START_MS, 'no time passes between commands')
  clock.advance(0.001)
  t.equal(clock.now(), START_MS + 0.001)
  t.equal(await time(client), START_MS + 0.001, 'moves by a microsecond')
  clock.advance(86_400_000)
  t.equal(await time(client), START_MS + 86_400_000.001)
  clock.set(START_MS - 1_000)
  t.equal(await time(client), START_MS - 1_000, 'moves back')
  const script = `local t = redis.call('TIME') return t[1] .. '.' .. t[2]`
  t.equal(await client.eval(script, 0), `${START_MS / 1_000 - 1}.0`, 'is the time in a script')
})

t.test('keys expire by the clock', async t => {
  const { client, clock } = await startRedis(t, { clock: true, startMs: 1_800_000_000_000 })
  t.equal(await time(client), 1_800_000_000_000)
  await client.set('key', 'value', 'PX', 1_000)
  t.equal(await client.pttl('key'), 1_000)
  clock.advance(999)
  t.equal(await client.pttl('key'), 1)
  t.equal(await client.get('key'), 'value')
  clock.advance(1)
  t.equal(await client.get('key'), 'value', 'Redis still has it in its last millisecond')
  clock.advance(1)
  t.equal(await client.get('key'), null)
  t.equal(await client.dbsize(), 0)
})

t.test('two servers at once, each with its clock', async t => {
  const [a, b] = await Promise.all([startRedis(t, { clock: true }), startRedis(t, { clock: true })])
  t.not(a.port, b.port)
  t.not(a.pid, b.pid)
  await a.client.set('key', 'a')
  t.equal(await b.client.get('key'), null)
  a.clock.advance(5)
  t.equal(await time(a.client), START_MS + 5)
  t.equal(await time(b.client), START_MS)
})

t.test('is gone after teardown', async t => {
  let pid = 0
  await t.test('a server', async t => {
    pid = (await startRedis(t, { clock: true })).pid
    t.ok(isAlive(pid))
  })
  t.notOk(isAlive(pid))
})

t.test('is gone after teardown when it was paused', async t => {
  let pid = 0
  await t.test('a server', async t => {
    pid = (await startRedis(t)).pid
    process.kill(pid, 'SIGSTOP')
  })
  t.notOk(isAlive(pid))
})

t.test('comes back on its port after a crash', async t => {
  const first = await startRedis(t)
  await first.kill()
  t.notOk(isAlive(first.pid))
  await t.rejects(first.client.ping(), /Connection is closed/, 'its client does not reconnect')
  const second = await startRedis(t, { port: first.port })
  t.equal(second.port, first.port)
  t.equal(await second.client.ping(), 'PONG')
})

t.test('says why it does not start', async t => {
  await t.rejects(startRedis(t, { args: ['--no-such-option', '1'] }), /did not start:[\s\S]*no-such-option/)
  const { port } = await startRedis(t)
  await t.rejects(startRedis(t, { port }), /did not start/, 'a port that another server has')
})

t.test('dies with a test process that is killed', async t => {
  const harness = moduleOf('test/helper/redis.ts').href
  const code = `
    const { startRedis } = await import(${JSON.stringify(harness)})
    const { port } = await startRedis({ teardown() {} })
    console.log(port)`
  const child = spawn(process.execPath, [...process.execArgv, '--input-type=module', '--eval', code], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    env: { ...process.env, TMPDIR: t.testdir() },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const [chunk] = await once(child.stdout, 'data')
  const port = Number(`${chunk}`)
  t.ok(await listens(port))
  child.kill('SIGKILL')
  await once(child, 'exit')
  await until(async () => !(await listens(port)), 'its end')
})
