// Type tests: `tsc --noEmit` compiles this file, and fails where an expected error does not occur.
import Fastify, { type FastifyRequest } from 'fastify'
import {
  type Decision,
  type DecisionEvent,
  errors,
  type Filter,
  type LimitError,
  type LimitRule,
  type LockRule,
  limitPlugin,
  type Problem,
  type Rule,
  type SendLimitOptions,
  type Verdict
} from '../../plugin/index.js'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_same: Same<A, B>): void => {}

const app = Fastify()
const limits = [{ max: 1, window: '60s' }]
const handler = async () => ''
await app.register(limitPlugin)
await app.register(limitPlugin, {
  rules: [{ name: 'a', key: 'ip', limits: [{ max: 1, window: '60s' }] }],
  region: 'US'
})
// @ts-expect-error "count" for "counts"
await app.register(limitPlugin, { rules: [{ name: 'a', key: 'ip', limits, count: 'attempts' }] })
// @ts-expect-error there is no such option
await app.register(limitPlugin, { rulez: [] })
// @ts-expect-error store is one of memory, redis
await app.register(limitPlugin, { store: 'mongo' })
// @ts-expect-error onStoreError is one of memory, deny, allow
await app.register(limitPlugin, { onStoreError: 'ignore' })
// @ts-expect-error onDecision is a function
await app.register(limitPlugin, { onDecision: 'log' })

// The limit of a route.
app.get('/', { config: { limit: 'a' } }, handler)
app.get('/', { config: { limit: ['a', 'b'] } }, handler)
app.get('/', { config: { limit: ['a', 'b'] as const } }, handler)
app.get('/', { config: { limit: { name: 'a', key: { phone: 'body.phone' }, limits } } }, handler)
app.get('/', { config: { limit: { name: 'a', key: 'ip', limits: [{ max: 1, per: 'day' }] } } }, handler)
app.get('/', { config: { limit: { name: 'a', key: ['ip', { value: 'query.id' }], lock: '30s' } } }, handler)
app.get(
  '/',
  { config: { limit: { name: 'a', key: { digest: ['body', { ip: 'query.a' }] }, limits } } },
  handler
)
app.get('/', { config: { limit: ['a', { name: 'f', check: async req => ({ allowed: !req.ip }) }] } }, handler)
app.route({ method: 'GET', url: '/', config: { limit: 'a' }, handler })
// @ts-expect-error a limit is no number
app.get('/', { config: { limit: 5 } }, handler)
// @ts-expect-error "limit" for "limits"
app.get('/', { config: { limit: { name: 'a', key: 'ip', limit: limits } } }, handler)
// @ts-expect-error a rule has limits or a lock
app.get('/', { config: { limit: { name: 'a', key: 'ip' } } }, handler)
// @ts-expect-error a rule has limits or a lock, not both
app.get('/', { config: { limit: { name: 'a', key: 'ip', limits, lock: '30s' } } }, handler)
// @ts-expect-error without a lock there is nothing to hold
app.get('/', { config: { limit: { name: 'a', key: 'ip', limits, maxHold: '30s' } } }, handler)
// @ts-expect-error a rule has a name
app.get('/', { config: { limit: { key: 'ip', limits } } }, handler)
// @ts-expect-error a rule has a key
app.get('/', { config: { limit: { name: 'a', limits } } }, handler)
// @ts-expect-error a path alone is no key
app.get('/', { config: { limit: { name: 'a', key: 'body.phone', limits } } }, handler)
// @ts-expect-error there is no such kind of key
app.get('/', { config: { limit: { name: 'a', key: { mobile: 'body.phone' }, limits } } }, handler)
// @ts-expect-error there is no such period
app.get('/', { config: { limit: { name: 'a', key: 'ip', limits: [{ max: 1, per: 'year' }] } } }, handler)
app.get(
  '/',
  { config: { limit: { name: 'a', key: 'ip', distinct: [{ phone: 'body.phone' }, 'ip'], limits } } },
  handler
)
// @ts-expect-error a lock cannot count different values
app.get('/', { config: { limit: { name: 'a', key: 'ip', distinct: 'ip', lock: '30s' } } }, handler)
// @ts-expect-error distinct is written as a key is
app.get('/', { config: { limit: { name: 'a', key: 'ip', distinct: 'body.phone', limits } } }, handler)
// @ts-expect-error a limit has a window or a period
app.get('/', { config: { limit: { name: 'a', key: 'ip', limits: [{ max: 1 }] } } }, handler)
app.get(
  '/',
  // @ts-expect-error a limit has a window or a period, not both
  { config: { limit: { name: 'a', key: 'ip', limits: [{ max: 1, window: '60s', per: 'day' }] } } },
  handler
)
app.get(
  '/',
  // @ts-expect-error a window has no time zone
  { config: { limit: { name: 'a', key: 'ip', limits: [{ max: 1, window: '1h', timeZone: 'UTC' }] } } },
  handler
)
// @ts-expect-error max is a number
app.get('/', { config: { limit: { name: 'a', key: 'ip', limits: [{ max: '1', window: '60s' }] } } }, handler)
// @ts-expect-error there is no such way to count
app.get('/', { config: { limit: { name: 'a', key: 'ip', limits, counts: 'all' } } }, handler)
// @ts-expect-error there is no such mode
app.get('/', { config: { limit: { name: 'a', key: 'ip', limits, mode: 'dry' } } }, handler)
// @ts-expect-error a filter has a check
app.get('/', { config: { limit: { name: 'f', init() {} } } }, handler)
// @ts-expect-error the value of a key is a scalar
app.get('/', { config: { limit: { name: 'a', key: () => ({ id: 1 }), limits } } }, handler)

// Functions know the request without an annotation.
const paying: Rule = {
  name: 'paying',
  key: async request => request.headers['x-account']?.toString(),
  limits: [{ max: request => (request.ip === '' ? 1 : 5), ceiling: 5, window: '1h' }],
  allow: ['a'],
  block: ['b']
}
app.get('/', { config: { limit: paying } }, handler)
// They may also know the request of their route.
type Sending = FastifyRequest<{ Body: { phone: string } }>
const typed: Rule = {
  name: 'typed',
  key: (request: Sending) => request.body.phone,
  limits: [{ max: (request: Sending) => request.body.phone.length, ceiling: 20, window: '1h' }]
}
app.get('/', { config: { limit: [typed, { name: 'f', check: (_: Sending) => {} }] } }, handler)
const byAccount: Rule = {
  name: 'by-account',
  key: ['all', { value: 'request.account.id' }],
  limits: [
    {
      max: { value: 'request.account.dailyQuota' },
      ceiling: 5,
      per: 'day',
      timeZone: { value: 'request.account.timeZone' }
    },
    { max: 5, per: 'month', timeZone: request => request.headers['x-zone']?.toString() ?? 'UTC' }
  ],
  allow: request => request.ip === '192.0.2.1',
  private: request => request.ip === '192.0.2.1'
}
app.get('/', { config: { limit: byAccount } }, handler)
app.get('/', { config: { limit: { name: 'a', key: 'all', limits: [{ max: 9, per: 'day' }] } } }, handler)
// @ts-expect-error "everybody" for "all"
app.get('/', { config: { limit: { name: 'a', key: 'everybody', limits } } }, handler)
// @ts-expect-error allow is not async
const lenient: Rule = { name: 'a', key: 'ip', limits, allow: async () => true }
const timeZone = async () => 'UTC'
// @ts-expect-error a time zone is not async
const wandering: Rule = { name: 'a', key: 'ip', limits: [{ max: 1, per: 'day', timeZone }] }
// @ts-expect-error a block list is no function
const strict: Rule = { name: 'a', key: 'ip', limits, block: () => true }
// @ts-expect-error private is not async
const silent: Rule = { name: 'a', key: 'ip', limits, private: async () => true }
// @ts-expect-error private is true or false
const secret: Rule = { name: 'a', key: 'ip', limits, private: 'yes' }
// @ts-expect-error "timezone" for "timeZone"
const zoned: Rule = { name: 'a', key: 'ip', limits: [{ max: 1, per: 'day', timezone: 'Asia/Shanghai' }] }
// @ts-expect-error "mod" for "mode"
const observed: Rule = { name: 'a', key: 'ip', lock: '30s', mod: 'observe' }
// @ts-expect-error a max from the request has a ceiling
const open: Rule = { name: 'a', key: 'ip', limits: [{ max: () => 5, window: '60s' }] }
// @ts-expect-error a max by a path has a ceiling, too
const quota: Rule = { name: 'a', key: 'ip', limits: [{ max: { value: 'request.quota' }, per: 'day' }] }
// @ts-expect-error a max that is a number has no ceiling
const twice: Rule = { name: 'a', key: 'ip', limits: [{ max: 5, ceiling: 9, window: '60s' }] }
// @ts-expect-error max is not async
const later: Rule = { name: 'a', key: 'ip', limits: [{ max: async () => 1, ceiling: 5, window: '60s' }] }
// @ts-expect-error a filter answers with an object
const filter: Filter = { name: 'f', check: () => false }

// Rules that were read from a JSON file.
const read = [
  { name: 'a', key: 'ip', limits: [{ max: 1, window: '60s' }] },
  { name: 'b', key: { value: 'a' }, limits: [{ max: { value: 'request.quota' }, ceiling: 5, per: 'day' }] },
  { name: 'c', key: [{ phone: 'body.phone' }, 'ip'], lock: '30s' }
]
app.limit.replace(read as Rule[])

// Rules and filters that are fixed by `as const`.
const fixed = [
  {
    name: 'a',
    key: { phone: 'body.phone' },
    limits: [{ max: 1, window: '60s' }],
    allow: ['1'],
    block: ['2']
  },
  { name: 'b', key: [{ digest: ['body', { ip: 'body.ip' }] }, 'ip'], limits: [{ max: 1, per: 'day' }] },
  { name: 'c', key: 'ip', lock: '30s' }
] as const
const checks = [{ name: 'f', check: () => ({ allowed: true }) }] as const
await app.register(limitPlugin, { rules: fixed, filters: checks })
app.limit.replace(fixed)
app.get('/', { config: { limit: fixed } }, handler)

// `reply.limit` is typed without a cast.
app.get('/', async (_request, reply) => {
  same<typeof reply.limit, Decision | null>(true)
  // @ts-expect-error reply.limit may be null
  reply.limit.keep()
  const decision = reply.limit
  if (decision === null) return
  same<typeof decision.allowed, boolean>(true)
  same<typeof decision.retryAfterMs, number | null>(true)
  for (const { rule, windowMs } of decision.violated)
    same<[typeof rule, typeof windowMs], [string, number]>(true)
  for (const { name, limits } of decision.rules) {
    same<typeof name, string>(true)
    for (const { max, remaining, resetMs, windowMs } of limits) {
      same<[typeof max, typeof remaining, typeof resetMs, typeof windowMs], [number, number, number, number]>(
        true
      )
    }
  }
  decision.keep()
  await decision.refund()
  await decision.release()
  await fetch('http://provider.example', { signal: decision.signal })
  // @ts-expect-error the members of a decision are read-only
  decision.allowed = true
})

// `fastify.limit` is typed without a cast.
const reserved = await app.limit.reserve({ mobile: '+8613800138000', pair: ['a', 1] })
same<typeof reserved, Decision>(true)
reserved.end()
const receipt = reserved.receipt('mobile', 'pair')
same<typeof receipt, string>(true)
same<ReturnType<typeof app.limit.refund>, Promise<void>>(true)
await app.limit.refund(receipt)
// @ts-expect-error refund takes a receipt, not a decision
await app.limit.refund(reserved)
same<Awaited<ReturnType<typeof app.limit.peek>>, Verdict>(true)
// @ts-expect-error peek reserves nothing
await app.limit.peek({}).then(verdict => verdict.keep())
await app.limit.block({ mobile: '+8613800138000' }, '1h')
await app.limit.unblock({ mobile: '+8613800138000' })
await app.limit.clear({ mobile: '+8613800138000' })
same<ReturnType<typeof app.limit.replace>, void>(true)
app.limit.replace([byAccount])
// @ts-expect-error replace takes all rules, as a list
app.limit.replace(byAccount)
same<typeof app.limit.rules, Readonly<Record<string, Rule>>>(true)
// @ts-expect-error reserve takes values by the names of rules
await app.limit.reserve('mobile')

const options: SendLimitOptions = {
  onDecision(event, request) {
    same<typeof event, DecisionEvent>(true)
    same<typeof event.stage, 'attempts' | 'sends'>(true)
    request?.log.info(event.keys)
  },
  errorResponse: (error, request, reply) => {
    same<typeof error, LimitError<Problem>>(true)
    reply.header('x-url', request.url)
    const { title } = error.problem
    return { title, wait: error.decision.retryAfterMs }
  },
  filters: [{ name: 'f', check: () => ({ allowed: false, retryAfterMs: 5 }) }],
  clock: { monotonic: () => 0, wall: () => 0 }
}

export {
  filter,
  later,
  lenient,
  observed,
  open,
  options,
  quota,
  secret,
  silent,
  strict,
  twice,
  wandering,
  zoned
}

export const lockOf = (rule: Rule): LockRule['lock'] | null => (rule.lock === undefined ? null : rule.lock)
export const ruleOf = (rule: Rule): LimitRule | null => (rule.lock === undefined ? rule : null)

const http2 = Fastify({ http2: true })
http2.get('/', async request => http2.limit.peek({ a: 'a' }, request))
app.get<{ Querystring: { a: string } }>('/', async request =>
  app.limit.reserve({ a: request.query.a }, request)
)

app.setErrorHandler((error, _request, reply) => {
  if (error instanceof errors.ExceededError) {
    same<typeof error.decision, Verdict>(true)
    same<typeof error.problem, Problem>(true)
    return reply.headers(error.headers).send(error.problem)
  }
  if (error instanceof errors.LimitError) return reply.code(error.statusCode).send(error.problem.detail)
  throw error
})
await app.register(limitPlugin, {
  errorResponse: ({ problem, decision }) => ({ title: problem.title, wait: decision.retryAfterMs })
})
export const built: LimitError<{ title: string }>['problem'] = { title: '' }
