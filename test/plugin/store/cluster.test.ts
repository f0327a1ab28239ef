import t from 'tap'
import { Cluster, type Nodes } from '../../../plugin/store/cluster.js'
import { BLOCKED, type Facts, PASSES, UNKNOWN } from '../../../plugin/store/facts.js'
import { Fallback } from '../../../plugin/store/fallback.js'
import { groupsOf, merge } from '../../../plugin/store/groups.js'
import { MemoryStore } from '../../../plugin/store/memory.js'
import { Outage } from '../../../plugin/store/outage.js'
import { isKeyError } from '../../../plugin/store/redis-errors.js'
import { type Entry, type Store, TICKS_PER_MS } from '../../../plugin/store/store.js'
import { watched } from '../../../plugin/store/watched.js'
import { count, entry, log, named, usedOf } from '../../contract/specs.js'
import { until } from '../../helper/until.js'

/** Two entries, in the order in which they are counted. */
const inOrder = () =>
  [1, 2].map(name => entry(log([1, 60_000]), name)).sort((a, b) => (a.identity < b.identity ? -1 : 1)) as [
    Entry,
    Entry
  ]

// Another request comes between the look at all nodes and the count on each. No real node can be told when to be late.
t.test(
  'a slot counted late on a node that was allowed for is given back when another node refuses',
  async t => {
    const store = new MemoryStore()
    t.teardown(() => store.close())
    const [first, second] = inOrder()
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
    // An outage for each call, so that one late answer does not make the others look lost.
    const outageOf = () => new Outage(50)
    const options = {
      timeout: 50,
      substitute: 'allow',
      outageOf,
      isRequestError: isKeyError
    } as const
    const cluster = new Cluster(
      new Fallback(nodes, { ...options, onError() {}, onUncounted() {}, onRefundFailed() {} }),
      error => t.fail(`${error}`)
    )
    const { facts } = await cluster.reserve([first, second], '')
    t.equal(facts?.[1], 0, 'refused')
    const used = () => usedOf([first, second], store.peek([first, second]))
    t.strictSame(used(), [1, 1])
    answer()
    await until(async () => used()[0] === 0, 'the slot')
    t.strictSame(used(), [0, 1])
  }
)

t.test('a block that comes between the look and the count refuses, and says when it ends', async t => {
  const store = new MemoryStore()
  t.teardown(() => store.close())
  const [first, second] = inOrder()
  const nodes: Nodes = {
    store,
    peek: entries => ({ facts: store.peek(entries), store }),
    reserve(entries, token) {
      if (entries[0]?.identity === second.identity) store.block(entries, 90_000)
      return { facts: store.reserve(entries, token), store }
    },
    close() {}
  }
  const cluster = new Cluster(nodes, error => t.fail(`${error}`))
  const { facts } = await cluster.reserve([first, second], '')
  const [admitted, receipt, state, blockedFor] = [facts?.[1], facts?.[3], facts?.[6], facts?.[7]]
  t.strictSame([admitted, state], [0, BLOCKED])
  t.equal(receipt, 0, 'the slot that was given back has no receipt')
  t.ok((blockedFor ?? 0) > 89_000 * TICKS_PER_MS, `${blockedFor} ticks`)
  t.strictSame(usedOf([first, second], store.peek([first, second])), [0, 0])
})

t.test(
  'a slot that cannot be given back after a refusal is reported, and the decision still refuses',
  async t => {
    const store = new MemoryStore()
    t.teardown(() => store.close())
    const [first, second] = inOrder()
    const full = new Error('it stays counted')
    const refund = async () => {
      throw full
    }
    const nodes: Nodes = {
      store,
      peek: entries => ({ facts: store.peek(entries), store }),
      reserve(entries, token) {
        if (entries[0]?.identity === second.identity) store.reserve(entries, '')
        return {
          facts: store.reserve(entries, token),
          store: { name: store.name, refund, renew: () => true }
        }
      },
      close() {}
    }
    const reports: unknown[] = []
    const cluster = new Cluster(nodes, error => reports.push(error))
    const { facts } = await cluster.reserve([first, second], '')
    t.equal(facts?.[1], 0)
    t.strictSame(reports, [full])
  }
)

t.test(
  'across nodes whose clocks differ, a wait is by its own node, the end of a counted period by one clock',
  t => {
    const [now, later, reset] = [1_000_000, 1_000_500, 9_000]
    const [day, rolling] = [count(5, 'day'), log([5, 60_000])]
    for (const [spec, state, number, told] of [
      [day, PASSES, 0, reset],
      [day, PASSES, 7, reset + later - now],
      [day, BLOCKED, 7, reset],
      [rolling, PASSES, 7, reset]
    ] as const) {
      const entries = [entry(spec, 1), entry(spec, 2)]
      const groups = groupsOf(entries)
      const found = [now, later].map(each => [each, 1, state, number, 0, reset])
      const { entries: facts } = named(entries, merge(entries, groups, found))
      t.strictSame(
        groups.map(({ places: [place] }) => facts[place as number]?.limits[0]?.reset),
        [reset, told]
      )
    }
    t.end()
  }
)

t.test(
  'entries on a lost node that is allowed for are UNKNOWN in the merged facts, with zeros in place',
  t => {
    const [own, lost] = [log([5, 60_000]), log([1, 60_000], [2, 3_600_000])]
    const entries = [entry(lost, 1), entry(own, 2), entry(own, 1)]
    const groups = groupsOf(entries)
    const found = groups.map(({ places }) => (places.includes(1) ? [1_000, 1, PASSES, 7, 3, 9_000] : null))
    t.strictSame(
      merge(entries, groups, found),
      [1_000, 1, [UNKNOWN, 0, 0, 0, 0, 0], [PASSES, 7, 3, 9_000], [UNKNOWN, 0, 0, 0]].flat()
    )
    t.end()
  }
)
