import t from 'tap'
import { type ClusterNode, startCluster } from '../helper/cluster.js'
import { open, values } from './process.js'

const patient = { timeout: '20s' }

t.test(
  'by its receipt, another process refunds a send that was counted on every node of a cluster',
  async t => {
    const cluster = await startCluster(t)
    const [{ app }, { app: worker }] = [
      await open(t, cluster, patient),
      await open(t, cluster, { ...patient, rules: [] })
    ]
    const [one, two, three] = (await values(cluster, app)) as [string, string, string]
    const keys = { once: one, order: three, both: two, daily: three, other: two }
    const held = async () =>
      (await cluster.contents()).map(
        found => Object.keys(found).filter(key => !key.endsWith('secret')).length
      )
    const sent = await app.limit.reserve(keys)
    t.match(sent, { allowed: true, store: 'redis' })
    sent.end()
    await sent.release()
    const receipt = sent.receipt()
    t.same(await held(), [1, 2, 1])
    for (let i = 0; i < 2; i++) {
      await worker.limit.refund(receipt)
      t.match(await app.limit.peek({ once: one, both: two }), { allowed: true })
      t.match((await app.limit.peek({ daily: three })).rules, [{ limits: [{ remaining: 99 }] }])
    }
    cluster.clock.advance(1)
    t.ok((await app.limit.reserve(keys)).allowed)
    await worker.limit.refund(receipt)
    t.match(await app.limit.peek({ once: one, both: two }), {
      violated: [{ rule: 'once' }, { rule: 'both' }]
    })
  }
)

t.test('a receipt of a send during the loss of a node gives back the slots on the live nodes', async t => {
  const cluster = await startCluster(t)
  for (const { client } of cluster.nodes) await client.config('SET', 'cluster-require-full-coverage', 'no')
  const { app } = await open(t, cluster, {})
  const { app: allows } = await open(t, cluster, { onStoreError: 'allow' })
  const { app: worker } = await open(t, cluster, { rules: [] })
  const [here, there, lost] = (await values(cluster, app)) as [string, string, string]
  const before = (await app.limit.reserve({ daily: lost })).receipt()
  await (cluster.nodes[2] as ClusterNode).kill()

  const partly = await app.limit.reserve({ once: here, both: lost, other: lost })
  t.match(partly, { allowed: true, store: 'memory' })
  await worker.limit.refund(partly.receipt())
  t.match(await app.limit.peek({ once: here }), { allowed: true }, 'the slot in Redis is given back')
  t.match(
    await app.limit.reserve({ both: lost }),
    { allowed: false, store: 'memory' },
    'the slot in the stand-in memory stays counted'
  )

  const uncounted = await allows.limit.reserve({ once: there, both: lost })
  t.match(uncounted, { allowed: true, store: 'none' })
  await worker.limit.refund(uncounted.receipt())
  t.match(await app.limit.peek({ once: there }), { allowed: true })
  await t.rejects(worker.limit.refund(before), { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' })
})
