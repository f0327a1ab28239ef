import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { credentials, production, smtp } from '../app/senders/servers.js'
import { startRedis } from '../helper/redis.js'
import { clone, link, root } from './clone.js'

// A build takes its time on a busy machine.
t.setTimeout(300_000)

const folder = await clone(t)

/** Runs `npm start`. @returns what it prints, and how it ends */
function launch(t: Test, env: NodeJS.ProcessEnv) {
  const { PATH, HOME } = process.env
  const child = spawn('npm', ['start'], {
    cwd: folder,
    env: { PATH, HOME, ...env },
    // In a process group of its own, so that nothing of it outlives this test.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const { pid = 0 } = child
  const ended = once(child, 'close')
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-pid, 'SIGKILL')
    await ended
  })
  const said = { out: '', err: '' }
  child.stderr.on('data', chunk => (said.err += chunk))
  child.stdout.on('data', chunk => (said.out += chunk))
  return { child, ended, said }
}

/** Starts a server by `npm start`. @returns where it listens, and a function that ends it */
async function start(t: Test) {
  const { child, ended, said } = launch(t, { PORT: '0' })
  let base: string | undefined
  for await (const line of createInterface({ input: child.stdout })) {
    base = /^Listening on (http:\/\/127\.0\.0\.1:\d+)$/.exec(line)?.[1]
    if (base !== undefined) break
  }
  t.ok(base, 'says where it listens', { said })
  child.stdout.resume()
  return {
    base,
    async end() {
      child.kill('SIGTERM')
      t.same(await ended, [0, null], 'ends well', { said })
    }
  }
}

t.test('a fresh clone starts, sends one code, refuses the second and ends on a signal', async t => {
  const { base, end } = await start(t)
  const post = () =>
    fetch(`${base}/v1/captcha`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ phone: '13800138000', purpose: 'register' })
    })
  const first = await post()
  t.equal(first.status, 202)
  t.match(await first.json(), { id: String, expiresAt: String, resendAt: String })
  const second = await post()
  t.equal(second.status, 429)
  const wait = Number(second.headers.get('retry-after'))
  t.ok(Number.isInteger(wait) && wait >= 1 && wait <= 60, 'Retry-After')
  await end()
})

t.test('several may start at once after a change, and none removes what another reads', async t => {
  const now = new Date()
  utimesSync(join(folder, 'app/policy.json'), now, now)
  for (const { end } of await Promise.all([start(t), start(t), start(t)])) await end()
  t.same(
    readdirSync(folder).filter(name => name.startsWith('dist')),
    ['dist']
  )
})

t.test('the start reads a file .env, and what the environment has comes first', async t => {
  const file = join(folder, '.env')
  async function refused(sentence: string) {
    const { ended, said } = launch(t, {})
    t.same(await ended, [1, null])
    t.equal(said.err, `Not started: ${sentence}\n`)
  }

  writeFileSync(
    file,
    '# of this test\r\nexport API_KEYS = "key-of-the-file:shop" # a key\r\n\r\nPORT=none\r\n'
  )
  await refused('PORT ("none") must be integer. It is the port to listen on.')
  const { base, end } = await start(t)
  const quota = await fetch(`${base}/v1/quota`, { headers: { 'x-api-key': 'key-of-the-file' } })
  t.match(await quota.json(), { account: 'shop' })
  await end()

  writeFileSync(file, 'PORT="0\n1"\nHOST\nLOCALE=en\n')
  const right = 'is neither NAME=value, in quotes if it holds a #, nor a comment (#).'
  await refused(`${file}, line 3, ${right}`)
  writeFileSync(file, 'HOST= # here\nLOCALE="en" #1\nLIMIT_SECRET=one#two\n')
  await refused(`${file}, line 3, ${right}`)
  rmSync(file)
  mkdirSync(file)
  await refused(`${file} cannot be read: EISDIR.`)
})

interface Locked {
  dev?: boolean
  link?: boolean
}

/** The packages that `npm prune --omit=dev` leaves at the top of node_modules. */
function kept(): string[] {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  return Object.entries<Locked>(packages)
    .filter(([path, { dev, link }]) => !dev && !link && path.lastIndexOf('node_modules/') === 0)
    .map(([path]) => path.slice('node_modules/'.length))
}

t.test('the build starts without development dependencies, with every sender', async t => {
  rmSync(join(folder, 'node_modules'), { recursive: true })
  link(folder, kept())
  const redis = await startRedis(t)
  const child = spawn(process.execPath, ['dist/app/server.js'], {
    cwd: folder,
    env: {
      ...production,
      ...credentials,
      ...smtp,
      PORT: '0',
      REDIS_URL: redis.url,
      LIMIT_SECRET: 'a secret of these tests',
      SMS_SENDERS: 'aliyun,tencent,twilio,webhook',
      MAIL_SENDERS: 'smtp'
    },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const ended = once(child, 'close')
  let said = ''
  child.stderr.on('data', chunk => (said += chunk))
  let base: string | undefined
  for await (const line of createInterface({ input: child.stdout })) {
    base = /^Server listening at (.*)$/.exec(JSON.parse(line).msg)?.[1]
    if (base !== undefined) break
  }
  t.ok(base, 'says where it listens', { said })
  for (const path of ['/readyz', '/docs/', '/metrics']) t.equal((await fetch(base + path)).status, 200, path)
  child.kill('SIGTERM')
  t.same(await ended, [0, null], 'ends well', { said })
})
