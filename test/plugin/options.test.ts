import Fastify from 'fastify'
import { Redis } from 'ioredis'
import t from 'tap'
import { errors, limitPlugin } from '../../plugin/index.js'
import { appOf } from '../helper/face.js'

const secret = 'sixteen characters'
const filter = { name: 'a', check: () => undefined }
const rule = { name: 'a', key: 'ip', limits: [{ max: 1, window: '60s' }] }

/** JSON cannot write it. */
const unwritable = { max: 1n }

/** The message of the error with which the registration fails. */
async function refused(options: unknown): Promise<string> {
  const app = Fastify()
  const error = await app.register(limitPlugin, options as object).then(
    () => undefined,
    (error: Error) => error
  )
  await app.close()
  if (!(error instanceof errors.OptionError)) throw new Error(`accepted, or another error: ${error}`)
  return error.message
}

const wrongNamespace =
  'options.namespace: "x" is wrong. It names a client of @fastify/redis: it goes with store: "redis" and without a "client". Keys begin with the "prefix".'

// Wrong options, and the message: path, value, and what would be right.
const wrong: [options: unknown, message: string][] = [
  [{ rules: {} }, 'options.rules: {} is wrong. It must be an array.'],
  [{ rules: 'x' }, 'options.rules: "x" is wrong. It must be an array.'],
  [{ rules: unwritable }, 'options.rules: what was given is wrong. It must be an array.'],
  [
    { rulez: [] },
    'options.rulez: the array given is wrong. There is no such option here; known: rules, filters, store, client, namespace, ' +
      'sharded, prefix, secret, digest, region, ipv4Prefix, ipv6Prefix, timeout, onStoreError, refusalCache, maxKeys, errorResponse, onDecision, clock.'
  ],
  [{ sharded: 'yes' }, 'options.sharded: "yes" is wrong. It must be a boolean.'],
  [
    JSON.parse('{"__proto__":1}'),
    'options.__proto__: the number given is wrong. There is no such option here; known: rules, '
  ],
  [
    { filters: [() => true] },
    'options.filters[0]: a function is wrong. It must be an object such as { name: "friends", check: request => ({ allowed: true }) }.'
  ],
  [
    { filters: [{ name: 'a' }] },
    'options.filters[0].check: undefined is wrong. It is required and must be a function.'
  ],
  [
    { filters: [{ ...filter, check: 'x' }] },
    'options.filters[0].check: "x" is wrong. It must be a function.'
  ],
  [{ filters: [{ ...filter, init: 3 }] }, 'options.filters[0].init: 3 is wrong. It must be a function.'],
  [
    { filters: [{ ...filter, close: null }] },
    'options.filters[0].close: null is wrong. It must be a function.'
  ],
  [
    { filters: [{ ...filter, start() {} }] },
    'options.filters[0].start: a function is wrong. There is no such option here; known: name, init, check, close.'
  ],
  [
    { filters: [{ ...filter, name: 'a b' }] },
    'options.filters[0].name: "a b" is wrong. It must be 1 to 64 letters, digits, "_", "." and "-", a letter or digit first.'
  ],
  [
    { rules: [rule, rule] },
    'options.rules[1].name: "a" is wrong. Each rule and filter has a name of its own.'
  ],
  [
    { rules: [rule], filters: [filter] },
    'options.filters[0].name: "a" is wrong. Each rule and filter has a name of its own.'
  ],
  [
    { filters: [filter, filter] },
    'options.filters[1].name: "a" is wrong. Each rule and filter has a name of its own.'
  ],
  [
    { store: {} },
    'options.store: {} is wrong. It must be "memory" or "redis"; an ioredis client is the option "client".'
  ],
  [
    { store: 'redis' },
    'options.secret: undefined is wrong. Redis needs a secret, the same in all processes: 16 characters or more, from the environment.'
  ],
  [
    { store: 'redis', secret },
    'options.store: "redis" is wrong. Pass an ioredis client, or register @fastify/redis before this plugin, and name its "namespace" if it has one.'
  ],
  [
    { store: 'redis', namespace: 'x', secret },
    'options.namespace: "x" is wrong. Pass an ioredis client, or register @fastify/redis before this plugin, and name its "namespace" if it has one.'
  ],
  [{ namespace: 'x', secret }, wrongNamespace],
  [{ namespace: 'x', client: new Redis({ lazyConnect: true }), secret }, wrongNamespace],
  [{ client: {}, secret }, 'options.client: the object given is wrong. It must be an ioredis client.'],
  [
    // A client of another library, or a wrapper that answers in text alone.
    { client: { evalsha() {}, eval() {}, get() {}, set() {} }, secret },
    'options.client: the object given is wrong. It must be an ioredis client.'
  ],
  [
    { client: { evalshaBuffer() {} }, secret },
    'options.client: the object given is wrong. It must be an ioredis client.'
  ],
  [
    { client: new Redis({ lazyConnect: true }).pipeline(), secret },
    'options.client: the object given is wrong. It must be an ioredis client.'
  ],
  [{ client: null, secret }, 'options.client: null is wrong. It must be an ioredis client.'],
  [
    { client: 'redis://:hush@host', secret },
    'options.client: the string given is wrong. It must be an ioredis client.'
  ],
  [
    { secret: 'short' },
    'options.secret: the string given is wrong. It must be text of at least 16 characters that nobody can guess.'
  ],
  [
    { secret: 5 },
    'options.secret: the number given is wrong. It must be text of at least 16 characters that nobody can guess.'
  ],
  [
    { secret: 'only 15 letters' },
    'options.secret: the string given is wrong. It must be text of at least 16 characters that nobody can guess.'
  ],
  [{ prefix: 'a{b}' }, 'options.prefix: "a{b}" is wrong. It must be text without braces and white space.'],
  [{ prefix: 'a b' }, 'options.prefix: "a b" is wrong. It must be text without braces and white space.'],
  [
    { ...Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`un/kn~own${i}`, 1])), digest: 'sha1' },
    'options.un/kn~own0: the number given is wrong. There is no such option here; known: rules, filters, '
  ],
  [{ digest: 'sha1' }, 'options.digest: "sha1" is wrong. It must be one of md5, sha256.'],
  [
    { region: 'cn' },
    'options.region: "cn" is wrong. Write a country as two capital letters (ISO 3166-1), such as "CN" or "GB".'
  ],
  [{ region: 86 }, 'options.region: 86 is wrong. It must be a string.'],
  [{ ipv4Prefix: 33 }, 'options.ipv4Prefix: 33 is wrong. It must be a whole number from 8 to 32.'],
  [{ ipv4Prefix: 7 }, 'options.ipv4Prefix: 7 is wrong. It must be a whole number from 8 to 32.'],
  [{ ipv6Prefix: 129 }, 'options.ipv6Prefix: 129 is wrong. It must be a whole number from 16 to 128.'],
  [{ ipv6Prefix: 15 }, 'options.ipv6Prefix: 15 is wrong. It must be a whole number from 16 to 128.'],
  [{ ipv6Prefix: 56.5 }, 'options.ipv6Prefix: 56.5 is wrong. It must be a whole number from 16 to 128.'],
  [{ ipv6Prefix: '64' }, 'options.ipv6Prefix: "64" is wrong. It must be a whole number from 16 to 128.'],
  [
    { timeout: 0 },
    'options.timeout: 0 is wrong. Write a duration such as "60s", "5m", "1h", "24h", "30d", or whole milliseconds; at most 366 days.'
  ],
  [{ timeout: '1 second' }, 'options.timeout: "1 second" is wrong. Write a duration such as "60s", "5m", '],
  [{ timeout: 3_600_001 }, 'options.timeout: 3600001 is wrong. A timeout is 1h or shorter.'],
  // A timer of Node's overflows after 24 days and fires at once.
  [{ timeout: '30d' }, 'options.timeout: "30d" is wrong. A timeout is 1h or shorter.'],
  [
    { timeout: null },
    'options.timeout: null is wrong. It must be a duration such as "60s", "5m", "1h", "24h", "30d", or milliseconds.'
  ],
  [
    { onStoreError: 'ignore' },
    'options.onStoreError: "ignore" is wrong. It must be one of memory, deny, allow.'
  ],
  [{ refusalCache: '0s' }, 'options.refusalCache: "0s" is wrong. Write a duration such as "60s", '],
  [{ refusalCache: true }, 'options.refusalCache: true is wrong. It must be a duration such as "60s", '],
  [
    { refusalCache: 60_001 },
    'options.refusalCache: 60001 is wrong. It is 1m or shorter: a slot that another process gives back stays refused here for that long.'
  ],
  [
    { refusalCache: '61s' },
    'options.refusalCache: "61s" is wrong. It is 1m or shorter: a slot that another process gives back stays refused here for that long.'
  ],
  [{ maxKeys: 0 }, 'options.maxKeys: 0 is wrong. It must be a whole number from 1 to 16000000.'],
  [{ maxKeys: 17e6 }, 'options.maxKeys: 17000000 is wrong. It must be a whole number from 1 to 16000000.'],
  [{ maxKeys: Number.NaN }, 'options.maxKeys: NaN is wrong. It must be a whole number from 1 to 16000000.'],
  [{ errorResponse: {} }, 'options.errorResponse: {} is wrong. It must be a function.'],
  [{ onDecision: 'log' }, 'options.onDecision: "log" is wrong. It must be a function.'],
  [
    { clock: {} },
    'options.clock: {} is wrong. It must be an object of two functions, monotonic() and wall().'
  ],
  [
    { clock: { monotonic: Date.now } },
    'options.clock: {} is wrong. It must be an object of two functions, monotonic() and wall().'
  ],
  [
    { clock: { wall: Date.now } },
    'options.clock: {} is wrong. It must be an object of two functions, monotonic() and wall().'
  ],
  [
    { clock: Date },
    'options.clock: a function is wrong. It must be an object of two functions, monotonic() and wall().'
  ]
]

t.test('wrong options fail with a message that says where, what and what would be right', async t => {
  for (const [options, message] of wrong) {
    const told = await refused(options)
    t.equal(told.slice(0, message.length), message)
    t.ok(message.endsWith('.') ? told === message : told.endsWith('.'), 'the sentence ends')
  }
})

t.test('options at their bounds are accepted', async t => {
  for (const options of [
    { secret: '16 letters of it' },
    { ipv4Prefix: 8 },
    { ipv4Prefix: 32 },
    { ipv6Prefix: 16 },
    { ipv6Prefix: 128 },
    { timeout: '1h' },
    { maxKeys: 1 },
    { prefix: '' },
    // An undefined option counts as left out.
    { rulez: undefined },
    { rules: [{ ...rule, limits: [{ max: 1, window: '1h', per: undefined }] }] },
    { rules: [{ ...rule, limits: [{ max: 1, per: 'day', window: undefined }] }] }
  ]) {
    const app = Fastify()
    await app.register(limitPlugin, options as object)
    t.ok(app.hasDecorator('limit'), JSON.stringify(options))
    await app.close()
  }
})

t.test('a client with the memory store, or without a secret, is an error', async t => {
  const client = new Redis({ lazyConnect: true, password: 'hush' })
  t.teardown(() => client.disconnect())
  t.equal(
    await refused({ store: 'memory', client }),
    'options.store: "memory" is wrong. A client goes with the store "redis".'
  )
  t.match(await refused({ client }), /^options\.secret: undefined is wrong\. Redis needs a secret/)
})

t.test('no secret reaches a message', async t => {
  const client = new Redis({ lazyConnect: true, username: 'u', password: 'hush' })
  const told = [
    await refused({ secret: 'hush' }),
    await refused({ client: { options: { password: 'hush' } }, secret }),
    await refused({ client: 'redis://:hush@localhost', secret }),
    await refused({ Secret: 'hush, but for its first letter' }),
    await refused({ redis: { password: 'hush' }, secret }),
    await refused({ store: client as never, secret }),
    await refused({ store: 'redis', namespace: client as never, secret }),
    await refused({ rules: client as never }),
    await refused({ rules: { client } as never })
  ]
  t.notMatch(told.join(), 'hush')
})

t.test('a wrong option is an OptionError with its code', async t => {
  const error = await Fastify()
    .register(limitPlugin, { maxKeys: 0 })
    .then(
      () => null,
      error => error
    )
  t.equal(error.code, 'FST_SEND_LIMIT_OPTION')
  t.ok(error instanceof errors.OptionError)
})

t.test('undefined options count as left out', async t => {
  const app = appOf(t)
  const none = undefined as never
  await app.register(limitPlugin, {
    rules: [{ ...rule, key: 'ip', lock: none, maxHold: none, allow: none, block: [] }],
    filters: none,
    timeout: none,
    clock: none
  })
  await app.ready()
  t.same(Object.keys(app.limit.rules), ['a'])
})
