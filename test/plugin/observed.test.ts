import t from 'tap'
import { open } from '../helper/face.js'
import { startRedis } from '../helper/redis.js'

const { client } = await startRedis(t)

for (const options of [{}, { client, secret: 'a secret of these tests' }]) {
  t.test(
    'client' in options ? 'redis: observed rules refuse nothing' : 'memory: observed rules refuse nothing',
    async t => {
      const limits = [{ max: 1, window: '60s' }]
      const rules = [
        {
          name: 'watched',
          key: { value: 'body.id' },
          mode: 'observe' as const,
          limits: [...limits, { max: 9, per: 'day' as const }]
        },
        {
          name: 'second',
          key: { value: 'body.id' },
          mode: 'observe' as const,
          limits: [{ max: 2, window: '60s' }]
        },
        { name: 'listed', key: { value: 'body.id' }, mode: 'observe' as const, block: ['3'], limits },
        { name: 'banned', key: { value: 'body.id' }, block: ['3'], limits },
        { name: 'other', key: { value: 'body.id' }, limits: [{ max: 3, window: '60s' }] }
      ]
      const { app, post } = await open(t, { ...options, rules })
      app.post(
        '/',
        { config: { limit: ['watched', 'other'] } },
        async (_request, reply) => reply.limit?.observed
      )
      app.post('/fails', { config: { limit: ['watched', 'other'] } }, async (_request, reply) =>
        reply.code(502).send()
      )
      app.post('/listed', { config: { limit: ['listed', 'other'] } }, async (_request, reply) => {
        await reply.limit?.refund()
        return reply.limit
      })
      const answers = [await post('/', { id: 1 }), await post('/', { id: 1 }), await post('/', { id: 1 })]
      t.same(
        answers.map(each => [each.statusCode, each.json().length]),
        [
          [200, 0],
          [200, 1],
          [200, 1]
        ],
        'the observed rule, the first of all, reports from the second send on'
      )
      t.equal((await post('/', { id: 1 })).statusCode, 429)

      await post('/', { id: 2 })
      await app.limit.block({ watched: 2 })
      for (let i = 0; i < 4; i++)
        t.equal(
          (await post('/fails', { id: 2 })).statusCode,
          502,
          'a failed send is refunded although the observed rule is blocked'
        )

      for (let i = 0; i < 4; i++)
        t.match(
          (await post('/listed', { id: 3 })).json(),
          { observed: [{ rule: 'listed' }], rules: [{ name: 'other', limits: [{ remaining: 3 }] }] },
          'a refund gives back the slot although the observed rule has the key on its block list'
        )

      t.match(
        await app.limit.peek({ listed: 3, banned: 3 }),
        {
          refusal: 'blocked',
          violated: { length: 1, 0: { rule: 'banned' } },
          observed: { length: 1, 0: { rule: 'listed' } }
        },
        'of two rules that have the key on their block lists only the other one refuses'
      )

      for (const observed of [[], ['watched'], ['watched', 'second']]) {
        const decision = await app.limit.reserve({ watched: 4, second: 4 })
        t.same(
          decision.observed.map(({ rule }) => rule),
          observed,
          'an observed rule that would refuse keeps no other observed rule from counting'
        )
      }
    }
  )
}
