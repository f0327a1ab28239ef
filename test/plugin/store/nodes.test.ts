import t from 'tap'
import type { RedisClient } from '../../../plugin/store/client.js'
import { Fallback } from '../../../plugin/store/fallback.js'
import { isRedirectError, nodesOf, outagesOf, slotOf } from '../../../plugin/store/nodes.js'
import { Outage } from '../../../plugin/store/outage.js'
import type { Entry, Facts, Store } from '../../../plugin/store/store.js'

t.test('the first hash tag of a key tells its node, also one that the client puts before it', t => {
  const slots: string[][] = []
  slots[slotOf('{who}')] = ['its own']
  slots[slotOf('{app}')] = ['that of the app']
  const nodeOf = (options: object) => nodesOf({ slots, options } as unknown as RedisClient, 'sl:')('who')
  t.equal(nodeOf({}), 'its own')
  t.equal(nodeOf({ keyPrefix: 'app:' }), 'its own')
  t.equal(nodeOf({ keyPrefix: '{app}:' }), 'that of the app')
  const natMap = { 'its own': { host: 'outside', port: 1 } }
  t.equal(nodeOf({ natMap }), 'outside:1')
  t.equal(nodeOf({ natMap: (node: string) => (node === 'its own' ? natMap[node] : null) }), 'outside:1')
  t.equal(nodeOf({ natMap: () => null }), 'its own')
  t.end()
})

t.test(
  'a client turns away what is sent on to another node; of one that it has lost itself that is the loss',
  t => {
    const closed = new Error('Connection is closed.')
    const isOf = (status: string, error: unknown, node = 'a:1') => {
      const nodes = () => [{ status, options: { host: 'a', port: 1 } }]
      return isRedirectError({ nodes } as unknown as RedisClient, node, error)
    }
    t.ok(isOf('ready', closed))
    t.notOk(isOf('end', closed))
    t.notOk(isOf('ready', new Error('another')))
    t.notOk(isOf('ready', closed, 'b:1'))
    t.end()
  }
)

t.test('while a node is lost, few of the slots are looked at for what another one decides', async t => {
  const names = ['a', 'b', 'c']
  let looks = 0
  const list = Array.from({ length: 16_384 }, (_, slot) => [names[Math.floor(slot / 5_462)] as string])
  const slots = new Proxy(list, {
    get(target, name, proxy) {
      looks++
      return Reflect.get(target, name, proxy)
    }
  })
  const entriesOn = (node: string) => {
    for (let i = 0; ; i++)
      if (list[slotOf(`{${i}}`)]?.[0] === node) return [{ identity: `${i}` }] as unknown as Entry[]
  }
  const [first, last] = [entriesOn('a'), entriesOn('c')]
  const outageOf = outagesOf({ slots } as unknown as RedisClient, '', node => new Outage(60_000, {}, node))
  const lost = outageOf(last)
  lost.failed(new Error('lost'))
  outageOf(first)
  looks = 0
  for (let i = 0; i < 10; i++) outageOf(first)
  t.ok(looks < 100, `${looks}`)
  list.fill(['b'], 10_924)
  list[0] = ['c']
  outageOf(first)
  t.ok(lost.lost, 'it has another one still')
  list[0] = ['b']
  outageOf(first)
  t.notOk(lost.lost, 'it has none any more')
})

t.test('a node is back when another one has its slots, not while nobody knows who has which', t => {
  const client = { slots: [] as string[][] }
  const all = (...nodes: string[]) => Array.from({ length: 16_384 }, () => nodes)
  const outageOf = outagesOf(client as RedisClient, '', node => new Outage(60_000, {}, node))
  const entries = [{ identity: 'x' }] as unknown as Entry[]
  const unknown = outageOf(entries)
  unknown.failed(new Error('away'))
  client.slots = all('a', 'b')
  const lost = outageOf(entries)
  t.notOk(unknown.lost, 'who has which is known')
  lost.failed(new Error('only reads'), true)
  t.equal(outageOf(entries), lost)
  client.slots = []
  t.equal(outageOf(entries), unknown)
  t.ok(lost.lost, 'it may have them still')
  client.slots = all('b', 'a')
  outageOf(entries)
  t.notOk(lost.lost, 'it is a replica by now')
  t.end()
})

t.test(
  'an answer of the node that had a slot ends no outage of one that hangs and gets it meanwhile',
  async t => {
    const slots = Array.from({ length: 16_384 }, () => ['a'])
    const changes: string[] = []
    const outageOf = outagesOf(
      { slots } as unknown as RedisClient,
      '',
      node => new Outage(60_000, { onBack: () => changes.push(`${node} is back`) }, node)
    )
    const entries = [{ identity: 'x', spec: {} }] as unknown as Entry[]
    slots.fill(['b'], 1)
    outageOf(entries).failed(new Error('hangs'))
    slots.fill(['a'], 1)
    // Not all of them: it stays a node of the cluster.
    slots[0] = ['b']
    let answer = (_facts: Facts) => {}
    const reserve = () =>
      new Promise<Facts>(resolve => {
        answer = resolve
      })
    const fallback = new Fallback({ name: 'redis', reserve } as unknown as Store, {
      timeout: 5_000,
      substitute: 'deny',
      outageOf,
      isRequestError: () => false,
      isWriteError: () => false,
      onError() {},
      onUncounted() {},
      onRefundFailed() {}
    })
    const reserved = fallback.reserve(entries, '')
    slots.fill(['b'], 1)
    answer([0, 0])
    await reserved
    t.strictSame(changes, [])
  }
)
