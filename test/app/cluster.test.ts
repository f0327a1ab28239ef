import type { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { startCluster } from '../helper/cluster.js'
import { startProxy } from '../helper/proxy.js'
import { until } from '../helper/until.js'
import { ask, askMail, E164, resend, status, verify, wrong } from './captcha.js'
import { ADMIN_KEY, type App, inject, post, startApp } from './helper.js'
import { provider } from './provider.js'

const admin = (app: App, action: string, phone = E164) =>
  post(app, `/v1/admin/recipients/${action}`, { phone }, { headers: { 'x-admin-key': ADMIN_KEY } })

async function scene(t: Test) {
  const cluster = await startCluster(t)
  const sms = provider()
  const env = {
    REDIS_URL: cluster.nodes.map(({ url }) => url).join(', '),
    LIMIT_SECRET: 'a secret of these tests',
    ADMIN_KEY
  }
  return { cluster, sms, start: (more = {}) => startApp(t, { ...env, ...more }, { senders: { sms } }) }
}

interface Story extends Pick<Awaited<ReturnType<typeof scene>>, 'cluster' | 'sms'> {
  one: App
  two: App
}

/** What two instances do together, on whatever nodes their keys are. */
async function story(t: Test, { cluster, sms, one, two }: Story): Promise<void> {
  await t.test('30 parallel requests make one message', async t => {
    const all = await Promise.all(Array.from({ length: 30 }, (_, i) => ask(i % 2 ? one : two)))
    t.equal(all.filter(each => each.status === 202).length, 1)
    t.equal(sms.messages.length, 1)
  })

  await t.test('a code is sent, resent and verified across the instances', async t => {
    cluster.clock.advance(60_000)
    const headers = { 'idempotency-key': 'one' }
    const { id } = (await ask(one, {}, { headers })).body
    t.equal((await ask(two, {}, { headers })).body.id, id, 'the answer is repeated')
    const first = sms.lastCode()
    t.match((await verify(two, id, wrong(first))).body, { triesLeft: 4 })
    cluster.clock.advance(60_000)
    t.equal((await resend(two, id)).status, 202)
    t.equal((await verify(one, id, first)).status, 422)
    t.match((await status(one, id)).body, { status: 'pending', triesLeft: 4 })
    t.equal((await verify(two, id, sms.lastCode())).status, 200)
    t.equal((await verify(one, id, sms.lastCode())).status, 422)
  })

  await t.test('a failed send is given back on every node', async t => {
    cluster.clock.advance(60_000)
    sms.fail('failed')
    for (let i = 0; i < 3; i++) t.equal((await ask(one, { phone: '13900139000' })).status, 502)
    sms.work()
    t.equal((await ask(two, { phone: '13900139000' })).status, 202)
  })

  await t.test('a recipient is looked up, blocked, listed and unblocked', async t => {
    t.match(await admin(one, 'lookup'), { status: 200, body: { standing: null } })
    t.equal((await admin(one, 'block')).status, 200)
    t.equal((await ask(two)).status, 403)
    const listed = await inject(two, { url: '/v1/admin/recipients', headers: { 'x-admin-key': ADMIN_KEY } })
    t.match(listed, { status: 200, body: { recipients: [{ recipient: '+86*******8000' }] } })
    t.equal((await admin(two, 'unblock')).status, 200)
    t.equal((await ask(one)).status, 202)
    t.equal((await askMail(one)).status, 202)
  })
}

t.test('two instances share a cluster of three nodes', async t => {
  const { cluster, sms, start } = await scene(t)
  const [one, two] = [await start(), await start()]

  const keys = Array.from({ length: 30 }, (_, i) => `key ${i}`)
  const reachesAll = ({ redis }: App) => Promise.all(keys.map(key => redis.exists(key)))
  await t.test('an instance that has just started is connected to every node', async t => {
    for (const app of [one, two]) await t.resolves(reachesAll(app))
  })

  await t.test('a node that is named alone ends the start; named twice it leads to all', async t => {
    const url = cluster.nodes[0]?.url
    await t.rejects(start({ REDIS_URL: url }), {
      name: 'ConfigError',
      message:
        'REDIS_URL names one node of a cluster: name several, or the only address twice, or set REDIS_SHARDED to on behind a proxy.'
    })
    await t.resolves(reachesAll(await start({ REDIS_URL: `${url},${url}` })))
  })

  await story(t, { cluster, sms, one, two })

  await t.test('the API is ready while one node takes writes, not if none does or it is down', async t => {
    const ready = () =>
      Promise.all(Array.from({ length: 20 }, async () => (await inject(one, { url: '/readyz' })).status))
    t.same(new Set(await ready()), new Set([200]))
    const pid = cluster.nodes.at(-1)?.pid as number
    process.kill(pid, 'SIGSTOP')
    t.same(new Set(await ready()), new Set([200]))
    process.kill(pid, 'SIGCONT')
    const needReplicas = (client: Redis, count: number) =>
      client.config('SET', 'min-replicas-to-write', count)
    for (const { client } of cluster.nodes) await needReplicas(client, 1)
    t.same(new Set(await ready()), new Set([503]), 'no node takes writes')
    for (const { client } of cluster.nodes) {
      await needReplicas(client, 0)
      t.same(new Set(await ready()), new Set([200]), 'one node takes writes')
      await needReplicas(client, 1)
    }
    for (const { client } of cluster.nodes) await needReplicas(client, 0)
    for (const { client } of cluster.nodes) {
      await client.call('CLUSTER', 'DELSLOTSRANGE', 0, 5)
      const info = async () => String(await client.call('CLUSTER', 'INFO'))
      await until(async () => (await info()).includes('cluster_state:fail'), 'a cluster that is down')
    }
    t.same(new Set(await ready()), new Set([503]))
  })
})

t.test('two instances share several Redis behind a proxy', async t => {
  const { cluster, sms, start } = await scene(t)
  const REDIS_URL = await startProxy(t, cluster)
  await t.rejects(start({ REDIS_URL }), {
    name: 'ConfigError',
    message: 'REDIS_URL leads to a proxy before several Redis: set REDIS_SHARDED to on.'
  })
  const behind = { REDIS_URL, REDIS_SHARDED: 'on' }
  const [one, two] = [await start(behind), await start(behind)]
  await story(t, { cluster, sms, one, two })
  for (const { client } of cluster.nodes) {
    t.match(await inject(one, { url: '/readyz' }), { status: 200 })
    await client.config('SET', 'min-replicas-to-write', 1)
  }
  t.match(await inject(one, { url: '/readyz' }), { status: 503 }, 'no shard takes writes')
})

t.test('if a node is lost, recipients and codes on the others can be looked up and verified', async t => {
  const { cluster, sms, start } = await scene(t)
  const app = await start()
  const asked: { id: string; code: string }[] = []
  for (let i = 10; i < 30; i++) {
    const headers = { 'x-end-user-ip': `198.51.100.${i}` }
    const { body } = await ask(app, { phone: `139001390${i}` }, { headers })
    asked.push({ id: body.id, code: sms.lastCode() })
  }
  await cluster.nodes.at(-1)?.kill()
  const lookedUp = new Set<unknown>()
  for (let i = 10; i < 30; i++) lookedUp.add((await admin(app, 'lookup', `139001390${i}`)).body.code)
  lookedUp.delete('LISTS_UNAVAILABLE')
  t.same(lookedUp, new Set([undefined, 'FST_SEND_LIMIT_STORE_UNAVAILABLE']))
  const found = new Set<number>()
  for (const { id, code } of asked) {
    const seen = await status(app, id)
    t.ok(seen.status === 200 || seen.body.code === 'CODES_UNAVAILABLE', `${seen.status} ${seen.body.code}`)
    t.equal((await verify(app, id, code)).status, seen.status)
    found.add(seen.status)
  }
  t.equal(found.size, 2, `some codes are on the lost node, some are not: ${[...found]}`)
})
