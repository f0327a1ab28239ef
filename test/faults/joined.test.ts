import t from 'tap'
import { slotOf } from '../../plugin/store/nodes.js'
import { startApp } from '../app/helper.js'
import { SLOTS } from '../helper/cluster.js'
import { startFourNodes } from './four-nodes.js'

t.test(
  'a slot on its way to a node that has just joined is no outage of the node that it leaves',
  async t => {
    const [first, second, , fresh] = await startFourNodes(t)
    const env = { LIMIT_SECRET: 'a secret of these tests', REDIS_URL: `${first.url},${second.url}` }
    const app = await startApp(t, env, {})
    const reserve = (value: string) => app.limit.reserve({ 'api-attempts': value })
    const here: string[] = []
    let slot = 0
    for (let i = 1; here.length < 2; i++) {
      const { keys } = await reserve(`192.0.2.${i}`)
      const found = slotOf(`{${keys['api-attempts']}}`)
      if (found >= SLOTS / 3) continue
      slot = found
      here.push(`192.0.2.${i}`)
    }
    const [staying, moving] = here as [string, string]
    await app.limit.clear({ 'api-attempts': moving })
    const ids = await Promise.all([first, fresh].map(({ client }) => client.call('CLUSTER', 'MYID')))
    await fresh.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(ids[0]))
    await first.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(ids[1]))

    t.equal((await reserve(moving)).store, 'redis', 'what is new, on the node that has joined')
    t.equal((await reserve(staying)).store, 'redis', 'what stays where it is')
  }
)
