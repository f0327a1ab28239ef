import t from 'tap'
import { anyMixture, Mixtures } from '../../../plugin/store/mixtures.js'
import { RedisStore } from '../../../plugin/store/redis.js'
import { RedisServer } from '../../../plugin/store/server.js'
import type { Entry } from '../../../plugin/store/store.js'
import { count, distinct, entry, log, token } from '../../contract/specs.js'
import { scriptCalls, startRedis } from '../../helper/redis.js'

const { client } = await startRedis(t)

async function figures(): Promise<{ scripts: number; sent: number; called: number }> {
  const cached = /number_of_cached_scripts:(\d+)/.exec(await client.info('memory'))
  const { sent, called } = await scriptCalls(client)
  return { scripts: Number(cached?.[1]), sent, called }
}

/** Every mixture of this many optional limits. */
function mixtures(limits: number): Entry[][] {
  const all = Array.from({ length: limits }, (_, i) => entry(log([1_000 - i, 60_000])))
  return Array.from({ length: 2 ** limits - 1 }, (_, i) => all.filter((_, bit) => (i + 1) & (1 << bit)))
}

t.test(
  'the first decision of a mixture sends its script with the call, and the next ones only name it',
  async t => {
    const store = new RedisStore(client, 'a:')
    const before = await figures()
    const entries = [entry(log([9, 60_000])), entry(count(9, 'day'))]
    for (let i = 0; i < 3; i++) t.equal((await store.reserve(entries, ''))[1], 1)
    const after = await figures()
    t.strictSame([after.sent - before.sent, after.called - before.called], [1, 2])
  }
)

t.test('processes with the same rules share their scripts', async t => {
  const entries = [entry(log([9, 60_000]))]
  await new RedisStore(client, 'b:').reserve(entries, '')
  const { scripts } = await figures()
  const same = entries.map(({ spec, identity }) => ({ spec: { ...spec }, identity }))
  await new RedisStore(client, 'b:').reserve(same, '')
  t.equal((await figures()).scripts, scripts)
})

t.test('however many mixtures there are, 64 have a script of their own, and all decide', async t => {
  const store = new RedisStore(client, 'c:')
  await new RedisServer(client, 'c:').load()
  const { scripts } = await figures()
  for (const entries of mixtures(8)) t.equal((await store.reserve(entries, ''))[1], 1)
  t.equal((await figures()).scripts - scripts, 64)
})

t.test('a max, a time zone and an identity from the request are in no script', t => {
  const known = new Mixtures()
  const spec = count(9, 'day')
  const own = { ...entry(spec), max: [3] }
  for (const entries of [[own], [entry(log([1, 60_000])), own], [{ ...entry(spec), zoned: true }]])
    t.equal(known.scriptFor(entries).text, anyMixture.text)
  const script = known.scriptFor([entry(spec, 'somebody')])
  t.not(script.text, anyMixture.text)
  t.equal(known.scriptFor([entry(spec, 'somebody else')]), script)
  t.notMatch(script.text, /somebody/)
  t.equal(known.scriptFor([entry({ ...spec }, 'somebody')]), script, 'equal rules after a replace')
  t.end()
})

t.test('a call makes several decisions, but only one of the slowest kind', t => {
  const slow = Array.from({ length: 9 }, () => entry(distinct([100, 60_000])))
  const decides = [slow.slice(0, 2), slow, slow.map(each => ({ ...each, max: [1] }))].map(
    entries => new Mixtures().scriptFor(entries).maxDecisions
  )
  t.strictSame(decides, [4, 1, 1])
  const [long, underWay] = [log([1_000, 60_000]), log([1, 60_000])]
  underWay.inForce.spec = long
  for (const spec of [long, underWay]) t.equal(new Mixtures().scriptFor([entry(spec)]).maxDecisions, 18)
  t.end()
})

t.test('the script with its specs decides as lua/reserve.lua does with the specs in the call', async t => {
  const store = new RedisStore(client, 'd:')
  const mine = [entry(log([1, 60_000])), entry(count(1, 'day'))]
  const told = mine.map(each => ({ ...each, max: [1] }))
  t.equal((await store.reserve(mine, token()))[1], 1)
  t.equal((await store.reserve(told, token()))[1], 0, 'with the specs in the call, the same limits refuse')
  t.equal(
    (
      await store.reserve(
        mine.map(each => ({ ...each, max: [2] })),
        token()
      )
    )[1],
    1
  )
  t.equal((await store.reserve(mine, token()))[1], 0)
})
