import t from 'tap'
import type { RedisClient } from '../../../plugin/store/client.js'
import type { Facts } from '../../../plugin/store/facts.js'
import { Fallback } from '../../../plugin/store/fallback.js'
import { isRedirectError, nodesOf, outagesOf, slotOf } from '../../../plugin/store/nodes.js'
import { Outage } from '../../../plugin/store/outage.js'
import type { Entry, Store } from '../../../plugin/store/store.js'

t.test('the first hash tag of a key, even in a prefix of the client, says its node, mapped by natMap', t => {
  const slots: string[][] = []
  slots[slotOf('{who}')] = ['its own']
  slots[slotOf('{app}')] = ['that of the app']
  const nodeOf = (options: object) => nodesOf({ slots, options } as unknown as RedisClient, 'sl:')('who')
  t.equal(nodeOf({}), 'its own')
  t.equal(nodeOf({ keyPrefix: 'app:' }), 'its own')
  t.equal(nodeOf({ keyPrefix: '{app}:' }), 'that of the app')
  t.equal(slotOf('foo{}{bar}'), 8_363, 'where the first tag is empty, the whole key tells, as in Redis')
  const natMap = { 'its own': { host: 'outside', port: 1 } }
  t.equal(nodeOf({ natMap }), 'outside:1')
  t.equal(nodeOf({ natMap: (node: string) => (node === 'its own' ? natMap[node] : null) }), 'outside:1')
  t.equal(nodeOf({ natMap: () => null }), 'its own')
  t.end()
})

t.test('"Connection is closed." is no error of a node that the client is still connected to', t => {
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
})

t.test('while a node is lost, decisions on another node look at few of the hash slots', async t => {
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
  t.ok(lost.lost, 'the lost node still has another hash slot')
  list[0] = ['b']
  outageOf(first)
  t.notOk(lost.lost, 'the lost node has no hash slot any more')
})

t.test('the outage of a node ends when another node has its hash slots, not while these are unknown', t => {
  const client = { slots: [] as string[][] }
  const all = (...nodes: string[]) => Array.from({ length: 16_384 }, () => nodes)
  const outageOf = outagesOf(client as RedisClient, '', node => new Outage(60_000, {}, node))
  const entries = [{ identity: 'x' }] as unknown as Entry[]
  const unknown = outageOf(entries)
  unknown.failed(new Error('away'))
  client.slots = all('a', 'b')
  const lost = outageOf(entries)
  t.notOk(unknown.lost, 'the hash slots are known')
  lost.failed(new Error('only reads'), true)
  t.equal(outageOf(entries), lost)
  client.slots = []
  t.equal(outageOf(entries), unknown)
  t.ok(lost.lost, 'the node may still have its hash slots')
  client.slots = all('b', 'a')
  outageOf(entries)
  t.notOk(lost.lost, 'the node is a replica now')
  t.end()
})

t.test(
  'an answer of the former node of a hash slot does not end the outage of the node that gets it meanwhile',
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
    // It keeps one hash slot, so it stays a node of the cluster.
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
