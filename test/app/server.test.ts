import { spawn, spawnSync } from 'node:child_process'
import cluster from 'node:cluster'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { loadPolicy } from '../../app/policy.js'
import { folderOf } from '../helper/folder.js'
import { isAlive } from '../helper/is-alive.js'
import { scriptOf } from '../helper/module.js'
import { startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { holding } from '../helper/way.js'
import { credentials, production } from './senders/servers.js'
import { startMail } from './smtp.js'

const server = scriptOf('app/server.ts')

/** The option of Node by which a process runs this module first. */
const importing = (module: string) => `--import=data:text/javascript,${encodeURIComponent(module)}`

function run(
  t: Test,
  env: NodeJS.ProcessEnv,
  args = [...process.execArgv, server],
  command = process.execPath
) {
  const { PATH } = process.env
  const child = spawn(command, args, {
    env: { PATH, PORT: '0', LOG_LEVEL: 'silent', ...env }
  })
  t.teardown(() => child.kill('SIGKILL'))
  let stderr = ''
  child.stderr.on('data', chunk => (stderr += chunk))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const line = async () => {
    const { value, done } = await lines.next()
    if (done) throw new Error(`it has ended: ${stderr}`)
    return String(value)
  }
  /** Waits for a line, and passes over those before it. */
  const said = async (what: RegExp): Promise<RegExpExecArray> => what.exec(await line()) ?? said(what)
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, stderr }))
  return { child, line, said, ended }
}

const post = (url: string, body: object, headers: Record<string, string> = {}) =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'development-key', ...headers },
    body: JSON.stringify(body)
  })

t.test('the server starts unconfigured, says where, prints codes, and ends on a signal', async t => {
  const tells = `
    import { createRequire } from 'node:module'
    const { cache } = createRequire('/')
    process.on('exit', () => console.log(Object.keys(cache).join(' ')))`
  const { child, line, ended } = run(t, { NODE_OPTIONS: importing(tells) })
  const [, base = ''] = /^Listening on (http:\/\/127\.0\.0\.1:\d+)$/.exec(await line()) ?? []
  t.equal(await line(), `Documentation: ${base}/docs`)
  t.match(await line(), `Try it twice: curl ${base}/v1/captcha`)
  t.match(await line(), 'development-key')
  t.match(await line(), `${base}/v1/dev/outbox`)
  const answer = await post(`${base}/v1/captcha`, { phone: '13800138000', purpose: 'register' })
  t.equal(answer.status, 202)
  t.match(await line(), /^sms to \+8613800138000: \d{6} is your code to register/)
  child.kill('SIGINT')
  t.match(await ended, { code: 0, stderr: '' })
  const loaded = await line()
  t.match(loaded, '/node_modules/fastify/')
  t.notMatch(loaded, '/node_modules/ioredis/', 'without Redis its client is not loaded')
})

t.test('the command that the server prints to try it works in another region and policy', async t => {
  const purposes = { unlock: { action: { en: 'unlock', zh: '解锁' } } }
  const POLICY_FILE = join(folderOf(t), 'policy.json')
  writeFileSync(POLICY_FILE, JSON.stringify({ ...loadPolicy(), purposes }))
  const { line } = run(t, { REGION: 'GB', POLICY_FILE })
  const said: string[] = [await line(), await line(), await line()]
  const [, url = '', body = ''] = /^Try it twice: curl (\S+) .* -d '(.*)'$/.exec(said[2] ?? '') ?? []
  t.equal((await post(url, JSON.parse(body))).status, 202)
})

t.test('at a HOST of several addresses the server listens at the first', async t => {
  // As on most machines, where localhost is ::1, too.
  const two = `
    import dns from 'node:dns'
    const { lookup } = dns
    const addresses = ['127.0.0.1', '127.0.0.2'].map(address => ({ address, family: 4 }))
    dns.lookup = (name, options, ...more) => {
      if (name === 'localhost' && options.all) more[0](null, addresses)
      else lookup(name, options, ...more)
    }`
  const { line } = run(t, { HOST: 'localhost', NODE_OPTIONS: importing(two) })
  const [, port = ''] = /^Listening on http:\/\/127\.0\.0\.1:(\d+)$/.exec(await line()) ?? []
  const other = connect(Number(port), '127.0.0.2')
  t.teardown(() => other.destroy())
  await t.rejects(once(other, 'connect'), { code: 'ECONNREFUSED' })
})

t.test('with accounts configured the server prints no key of development', async t => {
  const ACCOUNTS_FILE = join(t.testdir({ 'accounts.json': '[]' }), 'accounts.json')
  const { line } = run(t, { ACCOUNTS_FILE })
  const [, base = ''] = /^Listening on (.*)$/.exec(await line()) ?? []
  t.equal(await line(), `Documentation: ${base}/docs`)
  t.match(await line(), `${base}/v1/dev/outbox`)
})

/**
 * A server that is just sending a mail, which its provider has and answers on `release()`.
 * @param start starts it
 */
async function sending(t: Test, more: NodeJS.ProcessEnv = {}, start = run) {
  const mailbox = await startMail(t)
  mailbox.mode = 'hang'
  const smtp = {
    SMTP_URL: mailbox.url,
    MAIL_FROM: 'shop@example.com',
    // As long as it may be.
    SEND_TIMEOUT: '25000',
    LOG_LEVEL: 'info',
    ...more
  }
  const { child, said, ended } = start(t, smtp)
  const [, base = ''] = await said(/^Listening on (.*)$/)
  const mail = { to: 'jane@example.com', template: 'password-changed' }
  const answer = post(`${base}/v1/mail`, mail).then(
    ({ status }) => status,
    ({ message }) => message
  )
  await mailbox.arrived
  return { child, said, ended, answer, release: mailbox.release }
}

t.test('a send under way is finished first, though npm passes the signal on once more', async t => {
  // At once, however late the processor comes to this test.
  const again = `process.once('SIGTERM', () => {
      process.kill(process.pid, 'SIGTERM')
      console.log('once more')
    })`
  const { child, said, ended, answer, release } = await sending(t, { NODE_OPTIONS: importing(again) })
  child.kill('SIGTERM')
  await said(/^once more$/)
  await said(/"msg":"closing"/)
  release()
  t.equal(await answer, 202)
  t.match(await ended, { code: 0, signal: null })
})

t.test('a server that closes reads its policy no more on SIGHUP', async t => {
  const AUDIT_LOG = join(folderOf(t), 'audit.log')
  const { child, said, ended, release } = await sending(t, { AUDIT_LOG })
  child.kill('SIGTERM')
  await said(/"msg":"closing"/)
  child.kill('SIGHUP')
  release()
  t.match(await ended, { code: 0, signal: null, stderr: '' })
  const events = readFileSync(AUDIT_LOG, 'utf8').trim().split('\n')
  t.match(
    events.map(line => JSON.parse(line).event),
    ['send']
  )
  t.equal(events.length, 1)
})

t.test('a signal that comes again later ends the server at once', async t => {
  const { child, ended, answer } = await sending(t)
  const again = setInterval(() => child.kill('SIGTERM'), 100)
  t.teardown(() => clearInterval(again))
  t.match(await ended, { code: 1, signal: null })
  t.equal(await answer, 'fetch failed')
})

/** What makes a command the first process of a namespace, as in a container. */
const asFirst = ['--pid', '--fork', '--kill-child']
const noNamespace = spawnSync('unshare', [...asFirst, 'true']).status !== 0 && 'no namespaces'

t.test(
  'a signal that comes again later ends the first process of a container',
  { skip: noNamespace },
  async t => {
    const start: typeof run = (t, env) =>
      run(t, env, [...asFirst, process.execPath, ...process.execArgv, server], 'unshare')
    const { child, ended } = await sending(t, {}, start)
    const pid = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8'))
    const again = setInterval(() => isAlive(pid) && process.kill(pid, 'SIGTERM'), 100)
    t.teardown(() => clearInterval(again))
    t.match(await ended, { code: 1, signal: null })
  }
)

t.test('a worker of a cluster ends on a signal, though its channel to the parent is open', async t => {
  cluster.setupPrimary({ exec: server, silent: true })
  const worker = cluster.fork({ PORT: '0', LOG_LEVEL: 'silent' })
  t.teardown(() => worker.process.kill('SIGKILL'))
  await once(worker, 'listening')
  worker.process.kill('SIGTERM')
  t.same(await once(worker, 'exit'), [0, null])
})

t.test('on SIGHUP the server reads its policy anew, and runs on if that is wrong', async t => {
  const POLICY_FILE = join(folderOf(t), 'policy.json')
  const write = (text: string) => writeFileSync(POLICY_FILE, text)
  const policy = loadPolicy()
  write(JSON.stringify(policy))
  const { child, said } = run(t, { POLICY_FILE, LOG_LEVEL: 'info' })
  const [, base = ''] = await said(/^Listening on (.*)$/)
  const pay = () => post(`${base}/v1/captcha`, { phone: '13800138000', purpose: 'pay' })
  t.equal((await pay()).status, 422)
  write('{')
  child.kill('SIGHUP')
  await said(/the policy, the templates and the accounts in force stay/)
  t.equal((await pay()).status, 422)
  const purposes = { ...policy.purposes, pay: { action: { en: 'pay', zh: '付款' } } }
  write(JSON.stringify({ ...policy, purposes }))
  child.kill('SIGHUP')
  await said(/"POLICY_FILE":".*policy\.json".*the policy, the templates and the accounts were replaced/)
  t.equal((await pay()).status, 202)
})

t.test('in production SIGUSR1 does not open the debugger of Node', async t => {
  const { child, said, ended } = run(t, { ...production, LOG_LEVEL: 'info' })
  await said(/Server listening at/)
  child.kill('SIGUSR1')
  // Meanwhile the debugger, which runs in a thread of its own, would say on standard error where it listens.
  child.kill('SIGHUP')
  await said(/the policy, the templates and the accounts were replaced/)
  child.kill('SIGTERM')
  t.match(await ended, { code: 0, stderr: /^$/ })
})

t.test('a server that may read only its own files reads them anew on SIGHUP', async t => {
  // Each version of Node knows some of them.
  const flags = ['--permission', '--experimental-permission', '--allow-net'].filter(flag =>
    process.allowedNodeEnvironmentFlags.has(flag)
  )
  const read = `--allow-fs-read=${process.cwd()}/*`
  // From a folder that it may not read.
  const args = ['-C', '/', process.execPath, ...process.execArgv, ...flags, read, server]
  const { child, said } = run(t, { LOG_LEVEL: 'info' }, args, 'env')
  await said(/^Listening on/)
  child.kill('SIGHUP')
  const [, what] = await said(/the policy, the templates and the accounts (were replaced|in force stay)/)
  t.equal(what, 'were replaced')
})

/** A server that is starting: it waits for a Redis that takes connections and says nothing. */
async function starting(t: Test, more: NodeJS.ProcessEnv = {}) {
  // At an address of its own, as a client of another test may still look for a Redis at this port.
  const redis = createServer(() => {}).listen(0, '127.0.0.2')
  t.teardown(() => redis.close())
  await once(redis, 'listening')
  const REDIS_URL = `redis://127.0.0.2:${(redis.address() as AddressInfo).port}`
  const running = run(t, { LIMIT_SECRET: 'a secret of some length', LOG_LEVEL: 'info', REDIS_URL, ...more })
  const [socket] = await once(redis, 'connection')
  t.teardown(() => socket.destroy())
  return { ...running, redis, socket }
}

t.test('a signal while the server connects to Redis closes it in order', async t => {
  const { child, line, ended } = await starting(t)
  child.kill('SIGTERM')
  t.match(await line(), /"signal":"SIGTERM","msg":"closing"/)
  t.match(await ended, { code: 0, signal: null, stderr: '' })
})

t.test('a SIGHUP during the start does not end the server, and is not lost', async t => {
  const POLICY_FILE = join(folderOf(t), 'policy.json')
  writeFileSync(POLICY_FILE, JSON.stringify(loadPolicy()))
  const { child, line, redis, socket } = await starting(t, { POLICY_FILE })
  writeFileSync(POLICY_FILE, '{}')
  child.kill('SIGHUP')
  redis.close()
  socket.destroy()
  const wanted = [/the policy, the templates and the accounts in force stay/, /^Listening on/]
  while (wanted.length > 0) {
    const said = await line()
    wanted.splice(0, 2, ...wanted.filter(each => !each.test(said)))
  }
})

t.test('in a terminal the server reads its policy anew on SIGHUP, and ends with the terminal', async t => {
  const command = [process.execPath, ...process.execArgv, server].map(word => `'${word}'`).join(' ')
  const { PATH } = process.env
  const terminal = spawn('script', ['-qec', `echo $$; exec ${command}`, '/dev/null'], {
    env: { PATH, PORT: '0', LOG_LEVEL: 'info', SHELL: '/bin/sh' }
  })
  const lines = createInterface({ input: terminal.stdout })[Symbol.asyncIterator]()
  const said = async (what: RegExp) => {
    for (;;) {
      const { value, done } = await lines.next()
      if (done) throw new Error('the terminal is closed')
      const found = what.exec(value)
      if (found) return String(found[1])
    }
  }
  const pid = Number(await said(/^(\d+)/))
  t.teardown(() => isAlive(pid) && process.kill(pid, 'SIGKILL'))
  await said(/^(Listening on)/)
  process.kill(pid, 'SIGHUP')
  await said(/the policy, the templates and the accounts were (replaced)/)
  t.ok(isAlive(pid))
  terminal.kill('SIGKILL')
  await until(() => !isAlive(pid), 'its end')
})

t.test('a wrong variable ends the start with its name and exit code 1, without a stack', async t => {
  const { code, stderr } = await run(t, { PORT: 'abc' }).ended
  t.equal(code, 1)
  t.equal(stderr, 'Not started: PORT ("abc") must be integer. It is the port to listen on.\n')
})

t.test('the server starts with all SMS senders when TypeScript is run by tsx', async t => {
  const env = { ...credentials, SMS_SENDERS: 'aliyun,tencent,twilio' }
  t.match(await run(t, env, ['--import', 'tsx', 'app/server.ts']).line(), /^Listening on /)
})

t.test(
  'another LIMIT_SECRET loses neither blocks nor hashes of the trail if RECIPIENT_SECRET stays',
  async t => {
    const { url, client } = await startRedis(t)
    const AUDIT_LOG = join(folderOf(t), 'audit.log')
    const ADMIN_KEY = 'the key of the operator of these tests'
    const [former, next] = ['a secret of some length', 'another secret of that length']
    const start = async (env: NodeJS.ProcessEnv) => {
      const { child, line, ended } = run(t, { REDIS_URL: url, AUDIT_LOG, ADMIN_KEY, ...env })
      const base = /^Listening on (\S+)$/.exec(await line())?.[1]
      const end = async () => {
        child.kill('SIGTERM')
        await ended
      }
      const act = async (what: string, body: object): Promise<{ recipientHash: string; standing: unknown }> =>
        (
          await post(`${base}/v1/admin/recipients/${what}`, body, { 'x-admin-key': ADMIN_KEY })
        ).json() as never
      const ask = async (phone: string) => {
        const { status } = await post(`${base}/v1/captcha`, { phone, purpose: 'register' })
        return status
      }
      return { act, ask, end }
    }
    const phone = '13800138000'
    const other = '13900139000'

    const before = await start({ LIMIT_SECRET: former })
    await before.act('block', { phone, reason: 'complaint', duration: '24h' })
    const known = await before.act('lookup', { phone })
    t.match(known.standing, { standing: 'blocked', reason: 'complaint', until: /Z$/ })
    t.equal(await before.ask(other), 202)
    t.equal(await before.ask(other), 429)
    await before.end()

    const { code, stderr } = await run(t, { REDIS_URL: url, LIMIT_SECRET: next }).ended
    t.equal(code, 1)
    t.match(
      stderr,
      /^Not started: LIMIT_SECRET is not the one .* set RECIPIENT_SECRET to the former one, .* delete the key sl:secret;/
    )
    await client.del('sl:secret')
    t.match(
      (await run(t, { REDIS_URL: url, LIMIT_SECRET: next }).ended).stderr,
      /^Not started: RECIPIENT_SECRET, or LIMIT_SECRET where that is not set, is not the secret of the block/
    )

    const after = await start({ LIMIT_SECRET: next, RECIPIENT_SECRET: former })
    const { recipientHash, standing } = await after.act('lookup', { phone })
    t.same({ recipientHash, standing }, { recipientHash: known.recipientHash, standing: known.standing })
    t.equal(await after.ask(phone), 403)
    t.equal(await after.ask(other), 202, 'counts are lost')
    await after.act('unblock', { recipientHash })
    t.equal(await after.ask(phone), 202)
    await after.end()

    const events = readFileSync(AUDIT_LOG, 'utf8')
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    const sent = events.filter(({ event }) => event === 'send')
    t.equal(sent.length, 3)
    t.equal(
      sent[1].recipientHash,
      sent[0].recipientHash,
      'the hash of a recipient is the same before and after'
    )
    t.equal(sent[2].recipientHash, recipientHash)
    t.equal(new Set(events.map(({ network }) => network)).size, 1, 'the hash of the address is the same, too')
  }
)

t.test('a signal during the start ends the server before it listens', async t => {
  const { port } = await startRedis(t)
  const { url: REDIS_URL, asked, release } = await holding(t, port, 'sl:secret')
  const env = { REDIS_URL, LIMIT_SECRET: 'a secret of some length', LOG_LEVEL: 'info' }
  const { child, said, ended } = run(t, env)
  await asked
  child.kill('SIGTERM')
  await said(/"msg":"closing"/)
  release()
  await t.rejects(said(/^Listening/), /^it has ended: $/)
  t.match(await ended, { code: 0, stderr: '' })
})

t.test('a port that is taken ends the start with a sentence that names it', async t => {
  const other = createServer().listen(0, '127.0.0.1')
  t.teardown(() => other.close())
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const { code, stderr } = await run(t, { PORT: `${port}` }).ended
  t.equal(code, 1)
  t.match(
    stderr,
    `Not started: nobody can listen at HOST ("127.0.0.1") and PORT (${port}): listen EADDRINUSE`
  )
})

t.test('a HOST that nobody can listen at ends the start with a sentence, without a stack', async t => {
  const env = production
  // The second one is link-local, and does not say on which interface.
  for (const HOST of ['203.0.113.1', 'fe80::1']) {
    const { code, stderr } = await run(t, { ...env, HOST }).ended
    t.equal(code, 1)
    t.match(stderr, /^Not started: nobody can listen at HOST \("[^"]+"\) and PORT \(0\): [^\n]+\n$/)
  }
})
