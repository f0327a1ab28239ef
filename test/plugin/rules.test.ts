import Fastify from 'fastify'
import t from 'tap'
import { errors, limitPlugin } from '../../plugin/index.js'
import { RuleCompiler } from '../../plugin/rules.js'
import { open } from '../helper/face.js'

const limits = [{ max: 1, window: '60s' }]
const duration =
  'Write a duration such as "60s", "5m", "1h", "24h", "30d", or whole milliseconds; at most 366 days.'
const aLimit = 'It must be an object such as { max: 5, window: "1h" } or { max: 100, per: "day" }.'
const aKey = 'Write "ip", "all", { phone, email, ip, value or digest: path }, a function, or a list of these.'
const aName = 'be 1 to 64 letters, digits, "_", "." and "-", a letter or digit first.'
const aZone = 'Write an IANA time zone such as "Asia/Shanghai", a function or { value: path }.'
const rolling = 'Write a whole number from 1 to 1000. Count more than that with a calendar limit ("per").'
const early =
  'Attempts are counted before the body is read; use the address, headers, query or params, or count failures.'
const own =
  'Write a path to what plugins put on the request: what a client sends must not choose its own limit.'
const root = 'Write a path that starts at body, query, params, headers, request, as in "body.phone".'
const members = (of: string) =>
  `Write names of members after "${of}", with single dots between them, none of them "__proto__", "prototype", "constructor".`

const ofRule =
  'There is no such option here; known: name, key, limits, cost, distinct, lock, maxHold, counts, mode, optional, private, allow, block.'

/** The array `[, ]`. */
const hole = Object.assign([], { length: 1 })

// What is put into a good rule, where the mistake is, the wrong value, and what would be right.
const wrong: [members: object, path: string, value: string, right: string][] = [
  [{ limit: 1 }, '.limit', '1', ofRule],
  [{ name: undefined, title: 'a' }, '.title', '"a"', ofRule],
  [{ name: undefined }, '.name', 'undefined', `It is required and must ${aName}`],
  [{ name: '' }, '.name', '""', `It must ${aName}`],
  [{ name: 'a b' }, '.name', '"a b"', `It must ${aName}`],
  [{ name: '__proto__' }, '.name', '"__proto__"', `It must ${aName}`],
  [{ name: 'a\n' }, '.name', '"a\\n"', `It must ${aName}`],
  [{ name: 'é' }, '.name', '"é"', `It must ${aName}`],
  [{ name: 4 }, '.name', '4', `It must ${aName}`],
  [{ name: 'x'.repeat(65) }, '.name', `"${'x'.repeat(65)}"`, `It must ${aName}`],
  [{ name: 'x'.repeat(90) }, '.name', `"${'x'.repeat(78)}…`, `It must ${aName}`],

  [{ key: undefined }, '.key', 'undefined', aKey.replace('Write', 'It is required and must be')],
  [{ key: null }, '.key', 'null', aKey],
  [{ key: 'phone' }, '.key', '"phone"', aKey],
  [{ key: 'body.phone' }, '.key', '"body.phone"', aKey],
  [{ key: 3 }, '.key', '3', aKey],
  [{ key: 3n }, '.key', '3n', aKey],
  [{ key: {} }, '.key', '{}', aKey],
  [{ key: [] }, '.key', '[]', 'Name at least one part.'],
  [{ key: hole }, '.key[0]', 'undefined', aKey],
  [{ key: [['ip']] }, '.key[0]', '["ip"]', aKey],
  [
    { key: { phone: 'body.a', email: 'body.b' } },
    '.key',
    '{"phone":"body.a","email":"body.b"}',
    'A part is of one kind; for several write a list of parts.'
  ],
  [
    { key: { value: 'body.a', region: 'CN' } },
    '.key.region',
    '"CN"',
    'There is no such option here; known: value.'
  ],
  [{ key: { phone: 'phone' } }, '.key.phone', '"phone"', root],
  [{ key: ['ip', { value: 'cookies.id' }] }, '.key[1].value', '"cookies.id"', root],
  [{ key: { value: 3 } }, '.key.value', '3', 'It must be a path such as "body.phone".'],
  [{ key: { value: '' } }, '.key.value', '""', root],
  [{ key: { value: 'headers' } }, '.key.value', '"headers"', members('headers')],
  [{ key: { value: 'request' } }, '.key.value', '"request"', members('request')],
  [{ key: { value: 'body.' } }, '.key.value', '"body."', members('body')],
  [{ key: { value: 'body..x' } }, '.key.value', '"body..x"', members('body')],
  [{ key: { value: 'body.__proto__.x' } }, '.key.value', '"body.__proto__.x"', members('body')],
  [
    { key: { value: 'request.constructor.name' } },
    '.key.value',
    '"request.constructor.name"',
    members('request')
  ],
  [{ key: { value: 'query.prototype' } }, '.key.value', '"query.prototype"', members('query')],
  [
    { key: { value: 'request.body.phone' } },
    '.key.value',
    '"request.body.phone"',
    'Write it as "body.phone".'
  ],
  [
    { key: { phone: 'body.a', region: 'XX' } },
    '.key.region',
    '"XX"',
    'Write a country as two capital letters (ISO 3166-1), such as "CN" or "GB".'
  ],
  [
    { key: { ip: 'request.ip', ipv4Prefix: 33 } },
    '.key.ipv4Prefix',
    '33',
    'It must be a whole number from 8 to 32.'
  ],
  [
    { key: { ip: 'request.ip', ipv6Prefix: 8 } },
    '.key.ipv6Prefix',
    '8',
    'It must be a whole number from 16 to 128.'
  ],
  [{ key: { digest: [] } }, '.key.digest', '[]', 'It must be a list of at least one path or part.'],
  [{ key: { digest: hole } }, '.key.digest[0]', 'undefined', aKey],
  [
    { key: { digest: 'body.a' } },
    '.key.digest',
    '"body.a"',
    'It must be a list of at least one path or part.'
  ],
  [{ key: { digest: ['body.a', 'x'] } }, '.key.digest[1]', '"x"', root],
  [{ key: { digest: [{ phone: 'x' }] } }, '.key.digest[0].phone', '"x"', root],
  [
    { key: { digest: [() => 'a'] } },
    '.key.digest[0]',
    'a function',
    'Write a path, or a part such as { phone: "body.phone" }.'
  ],
  [
    { key: { digest: [{ digest: ['body'] }] } },
    '.key.digest[0]',
    '{"digest":["body"]}',
    'Write a path, or a part such as { phone: "body.phone" }.'
  ],

  [{ limits: undefined }, '', '{"name":"a","key":"ip"}', 'A rule has either "limits" or a "lock".'],
  [
    { lock: '30s' },
    '',
    '{"name":"a","key":"ip","limits":[{"max":1,"window":"60s"}],"lock":"30s"}',
    'A rule has either "limits" or a "lock".'
  ],
  [{ limits: [] }, '.limits', '[]', 'It must be a list of at least one limit.'],
  [{ limits: limits[0] }, '.limits', '{"max":1,"window":"60s"}', 'It must be a list of at least one limit.'],
  [{ limits: [null] }, '.limits[0]', 'null', aLimit],
  [{ limits: ['1/60s'] }, '.limits[0]', '"1/60s"', aLimit],
  [
    { limits: [{ max: 1 }] },
    '.limits[0]',
    '{"max":1}',
    'A limit has either a "window" (rolling) or a "per" (calendar: hour, day, week or month).'
  ],
  [
    { limits: [{ max: 1, per: 'day', window: 1 }] },
    '.limits[0]',
    '{"max":1,"per":"day","window":1}',
    'A limit has either a "window" (rolling) or a "per" (calendar: hour, day, week or month).'
  ],
  [
    { limits: [{ max: 1, window: '1s', timeZone: 'UTC' }] },
    '.limits[0].timeZone',
    '"UTC"',
    'There is no such option here; known: max, ceiling, window.'
  ],
  [
    { limits: [{ max: 1, per: 'day', timezone: 'UTC' }] },
    '.limits[0].timezone',
    '"UTC"',
    'There is no such option here; known: max, ceiling, per, timeZone.'
  ],

  [
    { limits: [{ limit: 5, window: '60s' }] },
    '.limits[0].limit',
    '5',
    'There is no such option here; known: max, ceiling, window.'
  ],
  [
    { limits: [{ window: '60s' }] },
    '.limits[0].max',
    'undefined',
    'It is required and must be a whole number from 1, or a function or { value: path } with a "ceiling".'
  ],
  [{ limits: [{ max: 0, window: '60s' }] }, '.limits[0].max', '0', rolling],
  [{ limits: [{ max: -1, window: '60s' }] }, '.limits[0].max', '-1', rolling],
  [{ limits: [{ max: 1.5, window: '60s' }] }, '.limits[0].max', '1.5', rolling],
  [{ limits: [{ max: Number.NaN, window: '60s' }] }, '.limits[0].max', 'NaN', rolling],
  [{ limits: [{ max: Infinity, window: '60s' }] }, '.limits[0].max', 'Infinity', rolling],
  [{ limits: [{ max: '5', window: '60s' }] }, '.limits[0].max', '"5"', rolling],
  [{ limits: [{ max: null, window: '60s' }] }, '.limits[0].max', 'null', rolling],
  [{ limits: [{ max: 1_001, window: '60s' }] }, '.limits[0].max', '1001', rolling],
  [{ limits: [...limits, { max: 1_001, window: '1h' }] }, '.limits[1].max', '1001', rolling],
  [
    { limits: [{ max: 0, per: 'day' }] },
    '.limits[0].max',
    '0',
    'Write a whole number from 1 to 1000000000000.'
  ],
  [
    { limits: [{ max: 10 ** 12 + 1, per: 'day' }] },
    '.limits[0].max',
    '1000000000001',
    'Write a whole number from 1 to 1000000000000.'
  ],
  [
    { limits: [{ max: () => 1, window: '60s' }] },
    '.limits[0].ceiling',
    'undefined',
    `A "max" from the request needs a ceiling: w${rolling.slice(1)}`
  ],
  [
    { limits: [{ max: () => 1, ceiling: 1_001, window: '60s' }] },
    '.limits[0].ceiling',
    '1001',
    `A "max" from the request needs a ceiling: w${rolling.slice(1)}`
  ],
  [
    { limits: [{ max: () => 1, ceiling: 0, window: '60s' }] },
    '.limits[0].ceiling',
    '0',
    'It must be a whole number from 1, the most that a "max" from the request may be.'
  ],
  [
    { limits: [{ max: () => 1, ceiling: '3', window: '60s' }] },
    '.limits[0].ceiling',
    '"3"',
    'It must be a whole number from 1, the most that a "max" from the request may be.'
  ],
  [
    { limits: [{ max: 1, ceiling: 2, window: '60s' }] },
    '.limits[0].ceiling',
    '2',
    'A ceiling goes with a "max" from the request.'
  ],
  [
    { limits: [{ max: 'request.quota', ceiling: 2, window: '60s' }] },
    '.limits[0].max',
    '"request.quota"',
    'With a ceiling write a function or { value: path }.'
  ],
  [
    { limits: [{ max: [5], ceiling: 5, window: '60s' }] },
    '.limits[0].max',
    '[5]',
    'With a ceiling write a function or { value: path }.'
  ],
  [{ limits: [{ max: 5, per: 'day', timeZone: ['UTC'] }] }, '.limits[0].timeZone', '["UTC"]', aZone],

  [
    { limits: [{ max: { value: 'request.quota' }, window: '60s' }] },
    '.limits[0].ceiling',
    'undefined',
    `A "max" from the request needs a ceiling: w${rolling.slice(1)}`
  ],
  [
    { limits: [{ max: { value: 'body.max' }, ceiling: 5, window: '60s' }] },
    '.limits[0].max.value',
    '"body.max"',
    own
  ],
  [{ limits: [{ max: { value: 'quota' }, ceiling: 5, per: 'day' }] }, '.limits[0].max.value', '"quota"', own],
  [
    { limits: [{ max: { path: 'request.quota' }, ceiling: 5, per: 'day' }] },
    '.limits[0].max.path',
    '"request.quota"',
    'There is no such option here; known: value.'
  ],
  [
    { limits: [{ max: {}, ceiling: 5, per: 'day' }] },
    '.limits[0].max.value',
    'undefined',
    'It is required and must be a path such as "request.account.quota".'
  ],
  [
    { limits: [{ max: 1, per: 'day', timeZone: { value: 'headers.x-zone' } }] },
    '.limits[0].timeZone.value',
    '"headers.x-zone"',
    own
  ],
  ...[
    'body.zone',
    'headers.x-zone',
    'raw.headers.x-zone',
    'socket.servername',
    'id',
    'cookies.zone',
    'url',
    'originalUrl',
    'host',
    'hostname',
    'port',
    'protocol',
    'mediaType'
  ].map((path): [object, string, string, string] => [
    { limits: [{ max: 1, per: 'day', timeZone: { value: `request.${path}` } }] },
    '.limits[0].timeZone.value',
    `"request.${path}"`,
    own
  ]),
  [
    { limits: [{ max: 1, per: 'day', timeZone: { value: 3 } }] },
    '.limits[0].timeZone.value',
    '3',
    'It must be a path such as "request.account.quota".'
  ],
  [{ limits: [{ max: 1, window: 'soon' }] }, '.limits[0].window', '"soon"', duration],
  [{ limits: [{ max: 1, window: '' }] }, '.limits[0].window', '""', duration],
  [{ limits: [{ max: 1, window: 0 }] }, '.limits[0].window', '0', duration],
  [{ limits: [{ max: 1, window: '-1s' }] }, '.limits[0].window', '"-1s"', duration],
  [{ limits: [{ max: 1, window: 1.5 }] }, '.limits[0].window', '1.5', duration],
  [{ limits: [{ max: 1, window: '400d' }] }, '.limits[0].window', '"400d"', duration],
  [
    { limits: [{ max: 1, window: null }] },
    '.limits[0].window',
    'null',
    'It must be a duration such as "60s", "5m", "1h", "24h", "30d", or milliseconds.'
  ],
  [
    { limits: [{ max: 1, per: 'year' }] },
    '.limits[0].per',
    '"year"',
    'It must be one of hour, day, week, month.'
  ],
  [
    { limits: [{ max: 1, per: null }] },
    '.limits[0].per',
    'null',
    'It must be one of hour, day, week, month.'
  ],
  [
    { limits: [{ max: 1, per: 'day', timeZone: 'Mars/Phobos' }] },
    '.limits[0].timeZone',
    '"Mars/Phobos"',
    aZone
  ],
  [{ limits: [{ max: 1, per: 'day', timeZone: '+08:00' }] }, '.limits[0].timeZone', '"+08:00"', aZone],
  [{ limits: [{ max: 1, per: 'day', timeZone: 8 }] }, '.limits[0].timeZone', '8', aZone],
  [
    {
      limits: [
        { max: 1, window: '60s' },
        { max: 2, window: '1m' }
      ]
    },
    '.limits[1].window',
    '"1m"',
    'Another limit of this rule has that window.'
  ],
  [
    {
      limits: [
        { max: 1, per: 'day' },
        { max: 2, per: 'day', timeZone: 'Asia/Shanghai' }
      ]
    },
    '.limits[1].per',
    '"day"',
    'Another limit of this rule has that period.'
  ],

  [{ limits: undefined, lock: 'x' }, '.lock', '"x"', duration],
  [
    { limits: undefined, lock: true },
    '.lock',
    'true',
    'It must be a duration such as "60s", "5m", "1h", "24h", "30d", or milliseconds.'
  ],
  [{ limits: undefined, lock: 99 }, '.lock', '99', 'A lock lives from 100 ms to 24h.'],
  [{ limits: undefined, lock: 86_400_001 }, '.lock', '86400001', 'A lock lives from 100 ms to 24h.'],
  // A lock is renewed by a timer, and timers overflow.
  [{ limits: undefined, lock: '90d' }, '.lock', '"90d"', 'A lock lives from 100 ms to 24h.'],
  [
    { limits: undefined, lock: '30s', counts: 'attempts' },
    '.counts',
    '"attempts"',
    'A lock goes with "sends".'
  ],
  [
    { limits: undefined, lock: '30s', maxHold: '10s' },
    '.maxHold',
    '"10s"',
    'It goes with a "lock", and is at least as long.'
  ],
  [{ limits: undefined, lock: '30s', maxHold: 'x' }, '.maxHold', '"x"', duration],
  [{ maxHold: '60s' }, '.maxHold', '"60s"', 'It goes with a "lock", and is at least as long.'],
  [{ maxHold: '1h' }, '.maxHold', '"1h"', 'It goes with a "lock", and is at least as long.'],

  [{ distinct: null }, '.distinct', 'null', aKey],
  [{ distinct: 'body.phone' }, '.distinct', '"body.phone"', aKey],
  [{ distinct: [] }, '.distinct', '[]', 'Name at least one part.'],
  [
    { distinct: ['all', 'all'] },
    '.distinct',
    '["all","all"]',
    'For one key it never differs: name something that may.'
  ],
  [{ distinct: 'ip' }, '.distinct', '"ip"', 'For one key it never differs: name something that may.'],
  [{ distinct: { phone: 'phone' } }, '.distinct.phone', '"phone"', root],
  [{ distinct: ['ip', { value: 'cookies.id' }] }, '.distinct[1].value', '"cookies.id"', root],
  [
    { distinct: { value: 'body.to' }, limits: [...limits, { max: 5, per: 'day' }] },
    '.limits[1].per',
    '"day"',
    'Different values are counted only in a "window".'
  ],
  [
    { distinct: { value: 'body.to' }, limits: [{ max: 101, window: '1h' }] },
    '.limits[0].max',
    '101',
    'Write a whole number from 1 to 100.'
  ],
  [
    { distinct: { value: 'body.to' }, limits: [{ max: () => 1, ceiling: 101, window: '1h' }] },
    '.limits[0].ceiling',
    '101',
    'A "max" from the request needs a ceiling: write a whole number from 1 to 100.'
  ],
  [
    { distinct: 'all', limits: undefined, lock: '30s' },
    '.distinct',
    '"all"',
    'It goes with "limits", not with a "lock".'
  ],
  [{ distinct: { phone: 'body.phone' }, counts: 'attempts' }, '.distinct', '"body.phone"', early],

  [{ counts: 'all' }, '.counts', '"all"', 'It must be one of sends, attempts, failures.'],
  [{ mode: 'dry' }, '.mode', '"dry"', 'It must be one of enforce, observe.'],
  [{ optional: 'yes' }, '.optional', '"yes"', 'It must be a boolean.'],
  [{ counts: 'attempts', key: { phone: 'body.phone' } }, '.key', '"body.phone"', early],
  [{ counts: 'attempts', key: { digest: ['body'] } }, '.key', '"body"', early],
  [
    { counts: 'attempts', key: ['ip', { digest: ['query.x', { phone: 'body.phone' }] }] },
    '.key',
    '"query.x, body.phone"',
    early
  ],

  [
    { allow: '192.0.2.1' },
    '.allow',
    '"192.0.2.1"',
    'It must be a list of values; for addresses CIDR ranges, too.'
  ],
  [{ block: [5] }, '.block[0]', '5', 'It must be text.'],
  [{ block: hole }, '.block[0]', 'undefined', 'It must be text.'],
  [
    { key: 'all', allow: ['x'] },
    '.allow',
    '["x"]',
    'Everybody counts as one here; allow or block in a rule keyed otherwise.'
  ],
  [
    { block: () => true },
    '.block',
    'a function',
    'It must be a list of values; for addresses CIDR ranges, too.'
  ],
  [{ private: 'yes' }, '.private', '"yes"', 'It must be true, false or a function.'],
  [
    { private: { value: 'request.x' } },
    '.private',
    '{"value":"request.x"}',
    'It must be true, false or a function.'
  ],
  [
    { allow: ['nope'] },
    '.allow',
    '["nope"]',
    '"nope" is neither an IP address nor a range such as 192.0.2.0/24. Write addresses or CIDR ranges.'
  ],
  [
    { block: ['10.0.0.0/33'] },
    '.block',
    '["10.0.0.0/33"]',
    '"10.0.0.0/33" has a prefix longer than its address. Write addresses or CIDR ranges.'
  ],
  [{ key: { phone: 'body.a' }, allow: ['12'] }, '.allow[0]', '"12"', 'It must be a phone number.'],
  [
    { key: { email: 'body.a' }, block: ['a@example.com', 'nope'] },
    '.block[1]',
    '"nope"',
    'It must be a mail address.'
  ],
  [
    { key: ['ip', { value: 'query.a' }], allow: ['192.0.2.1'] },
    '.allow',
    '["192.0.2.1"]',
    'Only a key of one part can have a list.'
  ],
  [
    { key: { digest: ['body.a'] }, block: ['x'] },
    '.block',
    '["x"]',
    'Content has no list; allow or block in a rule keyed otherwise.'
  ]
]

const made = (members: object) =>
  Object.fromEntries(
    Object.entries({ name: 'a', key: 'ip', limits, ...members }).filter(([, value]) => value !== undefined)
  )

t.test('a wrong rule fails with a message that says where, what and what would be right', async t => {
  for (const [members, path, value, right] of wrong) {
    const rule = made(members)
    for (const [at, register] of [
      [
        'options.rules[0]',
        (app: ReturnType<typeof Fastify>) => app.register(limitPlugin, { rules: [rule] as never })
      ],
      [
        'POST /x: config.limit',
        async (app: ReturnType<typeof Fastify>) => {
          await app.register(limitPlugin)
          app.post('/x', { config: { limit: rule as never } }, async () => '')
        }
      ]
    ] as const) {
      const app = Fastify()
      const error: Error | undefined = await Promise.resolve(register(app)).then(
        () => undefined,
        error => error as Error
      )
      await app.close()
      t.ok(error instanceof errors.OptionError, `${at}${path}`)
      t.equal(error?.message, `${at}${path}: ${value} is wrong. ${right}`)
    }
  }
})

const compiler = new RuleCompiler({
  secret: '0123456789abcdef',
  digest: 'md5',
  region: 'CN',
  ipv4Prefix: 32,
  ipv6Prefix: 64
})

t.test('a lock is renewed for ten times its time, or as long as maxHold says', t => {
  const lock = { name: 'a', key: 'ip', lock: '30s' } as const
  t.equal(compiler.compile(lock, '', '').maxHold, 300_000)
  t.equal(compiler.compile({ ...lock, maxHold: '40s' }, '', '').maxHold, 40_000)
  t.end()
})

t.test('different values get different numbers of 48 bits', t => {
  const rule = compiler.compile({ name: 'a', key: 'ip', distinct: { value: 'body.to' }, limits }, '', '')
  const numbers = Array.from({ length: 20_000 }, (_, i) => rule.distinctOf(['192.0.2.1', `${i}`]) ?? 0)
  t.equal(new Set(numbers).size, numbers.length)
  t.ok(numbers.every(number => number < 2 ** 48) && numbers.some(number => number > 2 ** 47))
  t.end()
})

t.test('rules at their bounds are accepted', async t => {
  const good: object[] = [
    { limits: [{ max: 1_000, window: 1 }] },
    { limits: [{ max: 1, window: '366d' }] },
    { limits: [{ max: 10 ** 12, per: 'month', timeZone: 'Asia/Kolkata' }] },
    {
      limits: [
        { max: 1, per: 'hour' },
        { max: 1, per: 'day' },
        { max: 1, window: '24h' },
        { max: 2, window: '1h' }
      ]
    },
    { limits: undefined, lock: 100 },
    { limits: undefined, lock: '24h', maxHold: '24h' },
    { key: { digest: ['body'] } },
    { counts: 'attempts', key: { digest: ['ip', 'query.a'] } },
    { name: 'constructor' },
    { name: 'x'.repeat(64) },
    { allow: [], block: [] },
    { allow: () => false, block: ['::1'], private: true },
    { private: () => true },
    { key: 'all', allow: () => false },
    { key: ['all', 'ip'] },
    { limits: [{ max: { value: 'request.quota' }, ceiling: 1_000, window: '1h' }] },
    {
      limits: [
        {
          max: { value: 'request.quota' },
          ceiling: 10 ** 12,
          per: 'day',
          timeZone: { value: 'request.zone' }
        }
      ]
    },
    { limits: [{ max: 1, per: 'day', timeZone: () => 'UTC' }] },
    { allow: ['::1', '::ffff:192.0.2.0/120', '0.0.0.0/0'] }
  ]
  for (const members of good) {
    const { app } = await open(t, { rules: [made(members)] as never })
    await app.ready()
    t.pass(JSON.stringify(members))
  }
})

t.test('a wrong config.limit of a route fails with a message that says where and what', async t => {
  const rules = [
    { name: 'a', key: 'ip' as const, limits },
    { name: 'b', key: 'ip' as const, limits },
    { name: 'c', key: 'ip' as const, limits: [...limits, { max: 5, window: '1h' }] }
  ]
  const filters = [{ name: 'f', check: () => undefined }]
  const inline = { name: 'a', key: 'ip' as const, limits }
  const table: [limit: unknown, message: string, code?: string][] = [
    [[], 'POST /x: config.limit: [] is wrong. Name at least one rule, or leave it out.'],
    [
      null,
      'POST /x: config.limit: null is wrong. Write a rule, the name of one, a filter, or a list of these.'
    ],
    [
      false,
      'POST /x: config.limit: false is wrong. Write a rule, the name of one, a filter, or a list of these.'
    ],
    [
      hole,
      'POST /x: config.limit[0]: undefined is wrong. Write a rule, the name of one, a filter, or a list of these.'
    ],
    [5, 'POST /x: config.limit: 5 is wrong. Write a rule, the name of one, a filter, or a list of these.'],
    [
      ['a', 5],
      'POST /x: config.limit[1]: 5 is wrong. Write a rule, the name of one, a filter, or a list of these.'
    ],
    ['d', 'POST /x: config.limit: there is no rule or filter named "d"; known: a, b, c, f', 'RULE_UNKNOWN'],
    [
      ['a', 'A'],
      'POST /x: config.limit[1]: there is no rule or filter named "A"; known: a, b, c, f',
      'RULE_UNKNOWN'
    ],
    ['', 'POST /x: config.limit: there is no rule or filter named ""; known: a, b, c, f', 'RULE_UNKNOWN'],
    [
      '__proto__',
      'POST /x: config.limit: there is no rule or filter named "__proto__"; known: a, b, c, f',
      'RULE_UNKNOWN'
    ],
    [
      ['a', 'b', 'a'],
      'POST /x: config.limit[2]: "a" is wrong. Each rule, filter and limit of a route has a name of its own.'
    ],
    [
      ['f', 'f'],
      'POST /x: config.limit[1]: "f" is wrong. Each rule, filter and limit of a route has a name of its own.'
    ],
    [
      ['a', inline],
      'POST /x: config.limit[1]: "a" is wrong. Each rule, filter and limit of a route has a name of its own.'
    ],
    [
      ['a', { name: 'a', check() {} }],
      'POST /x: config.limit[1]: "a" is wrong. Each rule, filter and limit of a route has a name of its own.'
    ],
    [
      ['c', { ...inline, name: 'c-60s' }],
      'POST /x: config.limit[1]: "c-60s" is wrong. Each rule, filter and limit of a route has a name of its own.'
    ],
    [
      [{ name: 'c-1h', check() {} }, 'a', 'c'],
      'POST /x: config.limit[2]: "c-1h" is wrong. Each rule, filter and limit of a route has a name of its own.'
    ],
    [
      [['a']],
      'POST /x: config.limit[0]: ["a"] is wrong. Write a rule, the name of one, a filter, or a list of these.'
    ],
    [
      { max: 5, timeWindow: '1 minute' },
      'POST /x: config.limit.max: 5 is wrong. There is no such option here; known: name, key, limits, '
    ],
    [{ name: 'g', check: 'x' }, 'POST /x: config.limit.check: "x" is wrong. It must be a function.']
  ]
  for (const [limit, message, code = 'OPTION'] of table) {
    const { app } = await open(t, { rules, filters })
    const add = () => app.post('/x', { config: { limit: limit as never } }, async () => '')
    t.throws(add, { code: `FST_SEND_LIMIT_${code}` }, JSON.stringify(limit))
    t.throws(add, new RegExp(message.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')))
  }
  const { app } = await open(t)
  t.throws(
    () => app.post('/x', { config: { limit: 'a' } }, async () => ''),
    /no rule or filter named "a"; known: none/
  )
})

t.test('fastify.limit.rules lists the rules as they were given', async t => {
  const shared = { name: 'shared', key: 'ip' as const, limits }
  const inline = { name: 'mine', key: 'ip' as const, limits }
  const { app } = await open(t, { rules: [shared] })
  t.strictSame(app.limit.rules, { shared } as object)
  app.route({
    method: ['PUT', 'POST'],
    url: '/x',
    config: { limit: [inline, 'shared'] },
    handler: async () => ''
  })
  app.get('/y', { config: { limit: inline }, constraints: { host: 'a.example' } }, async () => '')
  app.get('/y', { config: { limit: inline }, constraints: { host: /b\.example/ } }, async () => '')
  t.strictSame(app.limit.rules, {
    shared,
    'mine@PUT,POST /x': inline,
    'mine@GET /y {"host":"a.example"}': inline,
    'mine@GET /y {"host":"/b\\\\.example/"}': inline
  } as object)
  t.equal(app.limit.rules, app.limit.rules, 'the list is not made anew each time')
  t.ok(Object.isFrozen(app.limit.rules))
})

t.test('one rule with several limits makes pauses that grow from send to send', async t => {
  const tiers = [
    { max: 1, window: '60s' },
    { max: 2, window: '3m' },
    { max: 3, window: '8m' },
    { max: 4, window: '1h' }
  ]
  const { app, advance } = await open(t, { rules: [{ name: 'resend', key: 'ip', limits: tiers }] })
  const pauses: unknown[] = []
  for (let i = 0; i < 5; i++) {
    t.ok((await app.limit.reserve({ resend: '192.0.2.1' })).allowed)
    const { retryAfterMs } = await app.limit.peek({ resend: '192.0.2.1' })
    pauses.push(retryAfterMs)
    advance(Number(retryAfterMs))
  }
  // The fifth is sent an hour after the first.
  t.same(pauses, [60_000, 120_000, 300_000, 3_120_000, 60_000])
})
