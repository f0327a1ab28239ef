import t from 'tap'
import { startCluster } from '../helper/cluster.js'
import { until } from '../helper/until.js'
import { clientOf, openOn } from './process.js'

t.test('the loss and the return of a cluster that was away at the start are logged once each', async t => {
  const client = clientOf(await startCluster(t))
  const { connect } = client
  client.connect = () => Promise.reject(new Error('away'))
  // However long Redis takes to answer, that is no second loss.
  const { app, changes } = await openOn(t, client, { timeout: 5_000, onStoreError: 'deny' })
  const decision = () => app.limit.reserve({ daily: 'a' })
  await t.rejects(decision(), { code: 'FST_SEND_LIMIT_STORE_UNAVAILABLE' })
  client.connect = connect
  await client.connect()
  const decides = () =>
    decision().then(
      () => true,
      () => false
    )
  await until(decides, 'a decision')
  const told = changes().map(({ msg }) => msg)
  t.strictSame(told, ['redis does not decide', 'redis decides again'])
})
