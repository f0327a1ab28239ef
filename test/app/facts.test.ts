import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import t from 'tap'
import { build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'
import { DECIDES, type Decided, FACTS, factsOf } from '../../app/facts.js'
import { loadPolicy } from '../../app/policy.js'
import { ask, resend, verify } from './captcha.js'
import { lastCode, post } from './helper.js'

const ENDPOINTS: Record<string, Decided> = {
  'POST /v1/captcha': 'code',
  'POST /v1/captcha/:id/resend': 'code',
  'POST /v1/captcha/verify': 'try',
  'POST /v1/sms': 'message',
  'POST /v1/mail': 'message'
}
const own = loadPolicy().rules

t.test('a rule may read just what is there in some request that it decides on', async t => {
  const routes: RouteOptions[] = []
  const seen: Record<string, Set<string>> = { code: new Set(), try: new Set(), message: new Set() }
  const note = async (request: FastifyRequest) => {
    const decided = ENDPOINTS[`${request.method} ${request.routeOptions.url}`]
    for (const fact of FACTS) {
      const members = fact.split('.').slice(1)
      const value = members.reduce<unknown>(
        (of, name) => (of as Record<string, unknown> | null)?.[name],
        request
      )
      if (decided && value !== undefined && value !== null) seen[decided]?.add(fact)
    }
  }
  const watch = (message: unknown) =>
    (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', route => {
      routes.push(route)
      // After all other hooks, as the decision is made then.
      route.preHandler = [route.preHandler ?? [], note].flat()
    })
  subscribe('fastify.initialization', watch)
  const policy = { ...loadPolicy(), countryQuotas: { default: 9 } }
  const app = await build(readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent' }), { policy })
  unsubscribe('fastify.initialization', watch)
  t.teardown(() => app.close())
  const { id } = (await ask(app)).body
  t.equal((await resend(app, id)).status, 429)
  t.equal((await verify(app, id, lastCode(app, '+8613800138000'))).status, 200)
  await post(app, '/v1/sms', { phone: '13900139000', template: 'password-changed' })
  const all = new Set(Object.values(seen).flatMap(facts => [...facts]))
  t.same([...all].sort(), FACTS, 'FACTS are what these requests have, in the order of the alphabet')
  for (const [name, decided] of Object.entries(DECIDES)) {
    const there = FACTS.filter(fact => decided.some(each => seen[each]?.has(fact)))
    t.same(factsOf({ name }), there, `KNOWN says what there is when ${name} decides`)
  }

  const used = new Set<string>()
  for (const [endpoint, decided] of Object.entries(ENDPOINTS)) {
    const route = routes.find(({ method, url }) => `${method} ${url}` === endpoint)
    const rules = [route?.config?.limit].flat().filter(name => own.some(rule => rule.name === name))
    t.ok(rules.length > 0, endpoint)
    for (const name of rules) {
      t.ok(
        DECIDES[String(name)]?.includes(decided),
        `DECIDES names ${decided} for ${name}, as of ${endpoint}`
      )
      used.add(`${name} ${decided}`)
    }
  }
  const never = Object.entries(DECIDES).flatMap(([name, decided]) =>
    decided.map(each => `${name} ${each}`).filter(each => !used.has(each))
  )
  t.same(never, [], 'what DECIDES says of a rule, some endpoint has in its config.limit')
  t.same(
    Object.keys(DECIDES).sort(),
    own.map(({ name }) => name).sort(),
    'the policy has the rules of DECIDES'
  )
})

t.test('a rule of attempts may read the address alone, as nothing else is known yet', async t => {
  t.same(factsOf({ name: 'recipient', counts: 'attempts' }), ['request.ip'])
  for (const { name, counts } of own.filter(rule => rule.counts === 'attempts'))
    t.same(factsOf({ name, counts }), ['request.ip'])
})
