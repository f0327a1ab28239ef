import t from 'tap'
import { Cluster } from '../../../plugin/store/cluster.js'
import { Fallback } from '../../../plugin/store/fallback.js'
import { MemoryStore } from '../../../plugin/store/memory.js'
import { Outage } from '../../../plugin/store/outage.js'
import { isOfKey, isOfWrites } from '../../../plugin/store/redis.js'
import type { Entry, Facts, Store } from '../../../plugin/store/store.js'
import { watched } from '../../../plugin/store/watched.js'
import { entry, log, usedOf } from '../../contract/specs.js'
import { until } from '../settlement/places.js'

// Between its look at all nodes and its count on each another request comes: no real node can be told when to be late.
t.test('what was allowed without an answer is taken back when another node refuses', async t => {
  const store = new MemoryStore()
  t.teardown(() => store.close())
  const [first, second] = [1, 2]
    .map(name => entry(log([1, 60_000]), name))
    .sort((a, b) => (a.identity < b.identity ? -1 : 1)) as [Entry, Entry]
  let answer = () => {}
  const nodes: Store = {
    ...watched(store, () => {}),
    async reserve(entries, token): Promise<Facts> {
      const facts = store.reserve(entries, token)
      if (entries[0]?.identity !== first.identity) return facts
      store.reserve([second], '')
      return new Promise(resolve => (answer = () => resolve(facts)))
    }
  }
  // An identity each: that one is late makes no other look lost.
  const outageOf = () => new Outage(50, () => {})
  const options = { timeout: 50, otherwise: 'allow', outageOf, isOfKey, isOfWrites } as const
  const cluster = new Cluster(new Fallback(nodes, { ...options, onError: () => {} }), error =>
    t.fail(`${error}`)
  )
  const { facts } = await cluster.reserve([first, second], '')
  t.equal(facts?.[1], 0, 'refused')
  const used = () => usedOf([first, second], store.peek([first, second]))
  t.strictSame(used(), [1, 1])
  answer()
  await until(async () => used()[0] === 0, 'the slot')
  t.strictSame(used(), [0, 1])
})
