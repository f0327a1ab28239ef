import fastifyRedis from '@fastify/redis'
import Fastify from 'fastify'
import { type Cluster, Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { limitPlugin, type Rule, type SendLimitOptions } from '../../plugin/index.js'
import { RuleCompiler } from '../../plugin/rules.js'
import { startCluster } from '../helper/cluster.js'
import { appOf } from '../helper/face.js'
import { gate } from '../helper/gate.js'
import { logStream } from '../helper/log-stream.js'
import { startProxy } from '../helper/proxy.js'
import { until } from '../helper/until.js'

const secret = '0123456789abcdef'
const mobile: Rule = { name: 'mobile', key: { phone: 'body.phone' }, limits: [{ max: 1, window: '60s' }] }
const account: Rule = { name: 'account', key: { value: 'body.account' }, limits: [{ max: 2, per: 'day' }] }
const watched: Rule = {
  name: 'watched',
  key: { value: 'body.account' },
  mode: 'observe',
  limits: [{ max: 1, window: '1h' }]
}
// Longer than this test, so that no renewal comes.
const order: Rule = { name: 'order', key: { value: 'body.order' }, lock: '30m' }
const rules = [mobile, account, watched, order]

const cluster = await startCluster(t)

/** Four values of a rule whose keys are on this node. */
async function valuesOn(node: number, rule: Rule, value: (i: number) => string): Promise<string[]> {
  const { key } = new RuleCompiler({
    secret,
    digest: 'md5',
    region: 'CN',
    ipv4Prefix: 32,
    ipv6Prefix: 64
  }).compile(rule, '', '')
  const found: string[] = []
  for (let i = 0; found.length < 4; i++)
    if ((await cluster.nodeOf(`sl:{${key.identify(value(i), false)}}:x`)) === node) found.push(value(i))
  return found
}

const phones = await valuesOn(0, mobile, i => `138001380${String(i).padStart(2, '0')}`)
const accounts = await valuesOn(1, account, i => `account ${i}`)
const orders = await valuesOn(2, order, i => `order ${i}`)

/** A body whose three identities are on three nodes. */
const body = (phone: number, account: number, order: number, more = {}) => ({
  phone: phones[phone],
  account: accounts[account],
  order: orders[order],
  ...more
})

async function open(t: Test, options: SendLimitOptions, client?: Cluster) {
  await cluster.flush()
  const app = appOf(t)
  if (client) await app.register(fastifyRedis, { client, closeClient: true })
  await app.register(limitPlugin, { ...options, rules, secret, timeout: '10s', onStoreError: 'deny' })
  const [entered, onward] = [gate(), gate()]
  app.post<{ Body: { status?: number; hold?: boolean } }>(
    '/send',
    { config: { limit: rules.map(rule => rule.name) } },
    async (request, reply) => {
      if (request.body.hold) {
        entered.open()
        await onward.opened
      }
      return reply
        .code(request.body.status ?? 200)
        .send({ store: reply.limit?.store, observed: reply.limit?.observed })
    }
  )
  await app.ready()
  const post = (payload: object) => app.inject({ method: 'POST', url: '/send', payload })
  return { app, post, entered, onward }
}

/** The rules that each node has keys of, without the fingerprint of the secret. */
async function counted(): Promise<string[][]> {
  const found = await cluster.contents()
  return found.map(keys =>
    Object.keys(keys)
      .flatMap(key => /\}:([a-z]+)/.exec(key)?.[1] ?? [])
      .sort()
  )
}

async function story(t: Test, { post, entered, onward }: Awaited<ReturnType<typeof open>>): Promise<void> {
  const first = post(body(0, 0, 0, { hold: true }))
  await entered.opened
  t.strictSame(await counted(), [['mobile'], ['account', 'watched'], ['order']], 'each on its own node')

  const before = await cluster.contents()
  const busy = await post(body(1, 1, 0))
  t.equal(busy.statusCode, 409, 'the lock alone refuses')
  const again = await post(body(0, 1, 0))
  t.equal(again.statusCode, 429)
  t.equal(again.headers['retry-after'], '1800', 'until the lock has ended')
  t.match(again.json()['violated-policies'].join(), /order.*mobile|mobile.*order/, 'both are named')
  t.strictSame(await cluster.contents(), before, 'a refusal writes nothing on any node')

  onward.open()
  t.strictSame((await first).json(), { store: 'redis', observed: [] })
  await until(async () => (await counted())[2]?.length === 0, 'a free lock')

  const failed = await post(body(1, 0, 0, { status: 502 }))
  t.equal(failed.statusCode, 502)
  await until(async () => (await counted())[2]?.length === 0, 'a free lock')
  t.strictSame((await counted())[0], ['mobile'], 'the phone has its slot back')
  const retried = await post(body(1, 0, 1))
  t.equal(retried.statusCode, 200, 'and so has the account')
  t.match(retried.json(), { store: 'redis', observed: [{ rule: 'watched' }] })

  const full = await post(body(2, 0, 2))
  t.equal(full.statusCode, 429)
  t.match(full.json()['violated-policies'], ['account'])
  cluster.clock.advance(86_400_000)
  t.equal((await post(body(2, 0, 2))).statusCode, 200)
}

t.test('a cluster registered with @fastify/redis decides, and @fastify/redis closes it', async t => {
  const client = await cluster.connect()
  const opened = await open(t, { store: 'redis' }, client)
  await story(t, opened)
  await opened.app.close()
  await until(() => client.status === 'end', 'a client that @fastify/redis has closed')
})

t.test('a cluster passed as `client` decides, and is left open', async t => {
  const client = await cluster.connect()
  const opened = await open(t, { client })
  await story(t, opened)
  await opened.app.close()
  t.equal(client.status, 'ready', 'its owner closes it')
})

/** A client of a proxy in front of the cluster, which it takes for a single Redis. */
async function proxied(t: Test): Promise<Redis> {
  const client = new Redis(await startProxy(t, cluster), { autoResendUnfulfilledCommands: false })
  t.teardown(() => client.disconnect())
  return client
}

t.test('a cluster behind a proxy decides, with `sharded`', async t => {
  const opened = await open(t, { client: await proxied(t), sharded: true })
  await story(t, opened)
})

t.test('the start warns of a cluster behind a proxy without `sharded`', async t => {
  const warned = async (options: SendLimitOptions) => {
    const { lines, stream } = logStream()
    const app = appOf(t, { logger: { level: 'warn', stream } })
    await app.register(limitPlugin, { client: await proxied(t), rules, secret, ...options })
    await app.ready()
    return lines.map(line => JSON.parse(line).msg)
  }
  t.strictSame(await warned({}), [
    'redis takes no keys of several hash slots in one call, as behind a proxy; set sharded: true'
  ])
  t.strictSame(await warned({ sharded: true }), [])
})

async function crowd(t: Test, { post }: Awaited<ReturnType<typeof open>>): Promise<void> {
  const bodies = Array.from({ length: 50 }, (_, i) => body(i % 4, i % 3, 0, { order: `own ${i}` }))
  const statuses = (await Promise.all(bodies.map(post))).map(({ statusCode }) => statusCode)
  const admitted = bodies.filter((_, i) => statuses[i] === 200)
  t.strictSame(
    [...new Set(statuses)].filter(status => status !== 200 && status !== 429),
    []
  )
  t.equal(new Set(admitted.map(({ phone }) => phone)).size, admitted.length, 'no phone is admitted twice')
  for (const each of accounts) t.ok(admitted.filter(({ account }) => account === each).length <= 2)
  t.strictSame((await counted())[0]?.filter(name => name === 'mobile').length, admitted.length)
  for (const each of bodies) if ((await post(each)).statusCode === 200) admitted.push(each)
  t.equal(admitted.length, 4, 'each phone is admitted once')
}

t.test(
  'of 50 requests at once no more than max are admitted, and refused ones are counted nowhere',
  async t => {
    await crowd(t, await open(t, { client: await cluster.connect() }))
    await crowd(t, await open(t, { client: await proxied(t), sharded: true }))
  }
)

t.test('a process with another secret does not start', async t => {
  const client = await cluster.connect()
  await open(t, { client })
  const other = Fastify()
  t.teardown(() => other.close())
  await other.register(limitPlugin, { client, rules, secret: 'another secret of length' })
  await t.rejects(async () => other.ready(), { code: 'FST_SEND_LIMIT_SECRET_MISMATCH' })
})

t.test('the start warns of any node that may evict live keys', async t => {
  const client = await cluster.connect()
  for (const [i, node] of cluster.nodes.entries()) {
    await node.client.config('SET', 'maxmemory-policy', 'allkeys-lru')
    await node.client.script('FLUSH')
    const { lines, stream } = logStream()
    const app = appOf(t, { logger: { level: 'warn', stream } })
    await app.register(limitPlugin, { client, rules, secret })
    await app.ready()
    t.match(lines.join(''), /redis may evict live limits \(maxmemory-policy allkeys-lru\)/, `node ${i}`)
    t.match(await node.client.info('memory'), /number_of_cached_scripts:7/, 'it has the scripts')
    await node.client.config('SET', 'maxmemory-policy', 'noeviction')
  }
})
