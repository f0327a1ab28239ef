import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { connect } from 'node:tls'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { blocksOf } from '../docs/blocks.js'
import { makeCertificate } from '../helper/certificate.js'
import { folderOf } from '../helper/folder.js'
import { scriptOf } from '../helper/module.js'
import { startNginx } from '../helper/nginx.js'
import { freePort, startRedis } from '../helper/redis.js'
import { hook, startProvider } from './senders/servers.js'

const blocks = blocksOf('docs/deployment.md')
export const block = (use: string) => blocks.find(each => each.use === use)?.text ?? ''
export const run = promisify(execFile)
const server = scriptOf('app/server.ts')
export const KEY = 'a-key-of-24-characters-or-more'
export const ADMIN_KEY = 'the key of the operator of these tests'
const ORIGIN = 'https://shop.example'
/** The address of the operator's own server. */
export const BACKEND = '127.0.0.9'
/** The name in the certificate of the proxy, as for openssl. */
export const HOST = 'DNS:api.example.com'
export const PORTS = ['3001', '3002'] as const

/** Paths that only operators need; each is answered 200 on the machine. */
export const OPERATORS = [
  '/metrics',
  '/docs',
  '/docs/',
  '/docs/json',
  '/openapi.json',
  '/v1/admin/recipients'
]
/** Others that a proxy must not open, and other spellings of those. */
export const CLOSED = [
  ...['/healthz', '/readyz', '/v1/admin', '/'],
  ...['/%6detrics', '//metrics', '/v1/captcha/../admin/recipients', '/v1/captcha/%2e%2e/admin/recipients'],
  ...['/v1%2fadmin/recipients', '/v1/captcha/..;/admin/recipients']
]

/** The settings of a file of Redis, as on a command line, and its users, as for ACL SETUSER. */
function redisFile(use: string) {
  const lines = block(use)
    .trim()
    .split('\n')
    .map(line => line.split(' '))
  const settings = lines.filter(([name]) => name !== 'user')
  return {
    args: settings.flatMap(([name, ...values]) => [`--${name}`, ...values]),
    users: lines.filter(([name]) => name === 'user').map(([, ...words]) => words)
  }
}

/** A Redis with the settings of these blocks of docs/deployment.md. */
export async function startRedisOfPage(t: Test, ...uses: string[]) {
  const files = uses.map(redisFile)
  const redis = await startRedis(t, { args: files.flatMap(({ args }) => args) })
  // Switches off the default user, by which the client has connected; its connection stays.
  for (const words of files.flatMap(({ users }) => users)) await redis.client.call('ACL', 'SETUSER', ...words)
  return redis
}

/** The variables of a file with a line `NAME=value` for each. */
export const variables = (text: string): NodeJS.ProcessEnv =>
  Object.fromEntries([...text.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [name, value]))

/** The value of a setting in the unit. */
export const unit = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(block('unit'))?.[1] ?? ''

interface Instance {
  child: ChildProcess
  /** Resolves when it listens. */
  listening: Promise<unknown>
}

function startInstance(port: number, env: NodeJS.ProcessEnv): Instance {
  const child = spawn(process.execPath, [...process.execArgv, server], {
    env: { PATH: process.env.PATH, ...env, PORT: `${port}` },
    stdio: ['ignore', 'pipe', 'ignore']
  })
  const lines = createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })
  const listening = new Promise(resolve =>
    lines.on('line', line => line.includes('Server listening at') && resolve(line))
  )
  return { child, listening }
}

export async function end({ child }: Instance, signal: NodeJS.Signals) {
  const running = child.exitCode === null && child.signalCode === null
  if (running && child.kill(signal)) await once(child, 'exit')
}

interface Units {
  reload(): unknown
  /** @param which the instance, as after the `@` in the name of a unit */
  restart(which: string): Promise<void>
}

/** @returns a shell command that takes the place of systemctl, as far as the page uses it */
async function startSystemctl(t: Test, units: Units): Promise<string> {
  const server = createServer(async (request, response) => {
    const [verb, which = ''] = decodeURIComponent(request.url ?? '').split('/verification-api@')
    if (verb === '/try-reload-or-restart' && which === '*') units.reload()
    else if (verb === '/restart') await units.restart(which)
    else response.statusCode = 400
    response.end()
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return `exec curl -fsS -g "http://127.0.0.1:${(server.address() as AddressInfo).port}/$1/$2"`
}

/** Two instances as docs/deployment.md has them, on its Redis. */
export async function startInstances(t: Test) {
  const folder = folderOf(t)
  const at = (name: string) => join(folder, name)
  const { port: redisPort } = await startRedisOfPage(t, 'redis')
  const provider = await startProvider(t, { body: '' })
  const account = {
    id: 'shop',
    keys: [createHash('sha256').update(KEY).digest('hex')],
    dailyQuota: 1_000_000,
    origins: [ORIGIN]
  }
  writeFileSync(at('accounts.json'), JSON.stringify([account]))
  const env = {
    ...variables(
      block('env')
        .replace('6379', `${redisPort}`)
        .replace('LONG_SECRET', 'a-secret-of-this-test')
        .replace('192.0.2.10', BACKEND)
    ),
    ACCOUNTS_FILE: at('accounts.json'),
    SMS_SENDERS: 'webhook',
    MAIL_SENDERS: 'none',
    ...hook,
    ADMIN_KEY,
    STORE_TIMEOUT: '10000',
    LOG_LEVEL: 'info'
  }
  mkdirSync(at('log'))
  const ports = Object.fromEntries(
    await Promise.all(PORTS.map(async port => [port, await freePort()] as const))
  )
  const instances = new Map<string, Instance>()
  const start = (port: string) => {
    const own = unit('Environment')
      .replaceAll('%i', port)
      .replaceAll('/var/log/verification-api', at('log'))
      .replaceAll(' ', '\n')
    // So a message tells which instance has sent it.
    const WEBHOOK_URL = `${provider.url}/${port}`
    const instance = startInstance(Number(ports[port]), { ...variables(own), ...env, WEBHOOK_URL })
    t.teardown(() => end(instance, 'SIGKILL'))
    instances.set(port, instance)
    return instance
  }
  const instance = (port: string) => instances.get(port) as Instance
  await Promise.all(PORTS.map(port => start(port).listening))
  return {
    at,
    provider,
    instance,
    start: (port: string) => start(port).listening,
    portOf: (port: string) => Number(ports[port]),
    withPorts: (text: string) => text.replace(/\b(3001|3002)\b/g, port => `${ports[port]}`)
  }
}

/** Those two instances behind the nginx of docs/deployment.md. */
export async function deploy(t: Test) {
  const instances = await startInstances(t)
  const { at, instance, portOf, withPorts } = instances
  const tlsPort = await freePort()
  const { cert, key } = makeCertificate(at(''), HOST)
  const site = withPorts(block('site'))
    .replace('listen 443 ', `listen 127.0.0.1:${tlsPort} `)
    .replace('192.0.2.10', BACKEND)
    .replace('/etc/ssl/certs/api.example.com.pem', cert)
    .replace('/etc/ssl/private/api.example.com.key', key)
  const nginx = await startNginx(t, site, tlsPort)

  const systemctl = await startSystemctl(t, {
    reload: () => PORTS.map(port => instance(port).child.kill('SIGHUP')),
    async restart(which) {
      const port = PORTS.find(each => `${portOf(each)}` === which) ?? ''
      await end(instance(port), 'SIGTERM')
      // As with systemd, this returns before the process listens.
      void instances.start(port)
    }
  })
  mkdirSync(at('bin'))
  const command = (name: string, text: string) => {
    writeFileSync(at(`bin/${name}`), `#!/bin/sh\n${text}\n`)
    chmodSync(at(`bin/${name}`), 0o755)
  }
  command('systemctl', systemctl)
  command('nginx', `PATH="${process.env.PATH}"\nexec nginx ${nginx.args.join(' ')} "$@"`)
  const withCommands = { ...process.env, PATH: `${at('bin')}:${process.env.PATH}` }
  const restart = withPorts(block('restart'))
    .replace('/etc/nginx/conf.d/verification-api.conf', nginx.site)
    .replace('/run/nginx.pid', nginx.pidFile)

  return {
    ...instances,
    ...clientOf(tlsPort, cert),
    env: withCommands,
    /** Takes an instance out of nginx, as the script of the page does. */
    leaveOut(port: string) {
      const site = readFileSync(nginx.site, 'utf8')
      writeFileSync(
        nginx.site,
        site.replace(`:${portOf(port)} max_fails=0;`, found => found.replace(';', ' down;'))
      )
      return run('nginx', [...nginx.args, '-s', 'reload'])
    },
    /** Restarts both by the script of the page. */
    restart: () => run('sh', ['-c', restart], { env: withCommands })
  }
}

/** How to ask the proxy at that port of 127.0.0.1. @param cert the file of its certificate */
export function clientOf(port: number, cert: string) {
  const ca = readFileSync(cert)
  return {
    /** Begins a request and sends no more of it. @param from an address of the loopback network */
    begin(begun: string, from = '127.0.0.1') {
      const at = { host: '127.0.0.1', port, localAddress: from }
      const socket = connect({ ...at, servername: 'api.example.com', ca })
      socket.write(begun)
      return socket
    },
    /** Asks over a connection of its own. */
    ask: (path: string, asked: Asked = {}) => ask(port, ca, path, asked)
  }
}

export interface Asked {
  method?: string
  headers?: Record<string, string>
  body?: object | string
  /** An address of the loopback network from which it comes. */
  from?: string
}

async function ask(port: number, ca: Buffer, path: string, asked: Asked) {
  const { body, method = body === undefined ? 'GET' : 'POST', headers = {}, from = '127.0.0.1' } = asked
  const request = httpsRequest({
    ...{ host: '127.0.0.1', servername: 'api.example.com', port, ca, localAddress: from, agent: false },
    ...{ method, path, headers: { host: 'api.example.com', 'content-type': 'application/json', ...headers } }
  })
  request.end(typeof body === 'object' ? JSON.stringify(body) : body)
  const [response] = await once(request, 'response')
  let text = ''
  for await (const chunk of response) text += chunk
  const problem = response.headers['content-type']?.includes('json') ? JSON.parse(text) : {}
  return { status: response.statusCode as number, headers: response.headers, text, problem }
}

/** A request for an SMS to the number that ends in `i`. */
export const sms = (i: number): Asked => ({
  headers: { 'x-api-key': KEY },
  body: { phone: `139${String(i).padStart(8, '0')}`, template: 'order-shipped', params: { order: `${i}` } }
})

type Place = Awaited<ReturnType<typeof startInstances>> & ReturnType<typeof clientOf>

/** Checks that limits count the address that the proxy sees, whatever a client claims. */
export async function countsSeenAddress(t: Test, place: Place) {
  let number = 0
  const code = (from: string) => {
    const claimed = `198.51.100.${number}`
    return place.ask('/v1/captcha', {
      from,
      headers: {
        origin: ORIGIN,
        'x-forwarded-for': claimed,
        forwarded: `for=${claimed}`,
        'x-real-ip': claimed
      },
      body: { phone: `13${number++}00138000`, purpose: 'register' }
    })
  }
  for (let i = 0; i < 5; i++) t.equal((await code('127.0.0.2')).status, 202)
  const refused = await code('127.0.0.2')
  t.equal(refused.status, 429)
  t.match(refused.problem['violated-policies'], ['ip-60s'])
  t.equal((await code('127.0.0.3')).status, 202, 'another client is not limited by that')
  return refused
}

/** Checks that a request is not tried again that an instance had taken when it died. @returns which instance is dead */
export async function losesOne(t: Test, place: Place) {
  const { provider } = place
  const answers = provider.does
  provider.does = 'hang'
  const before = provider.asked.length
  const arrived = provider.next()
  const answer = place.ask('/v1/sms', sms(200))
  await arrived
  const dead = provider.asked.at(-1)?.path.slice(1) ?? ''
  await end(place.instance(dead), 'SIGKILL')
  t.equal((await answer).status, 502)
  t.equal(provider.asked.length, before + 1)
  provider.does = answers
  return dead
}
