import fc from 'fast-check'
import t from 'tap'
import { formatDuration, MAX_DURATION, parseDuration } from '../../plugin/duration.js'

t.test('durations are parsed to milliseconds', async t => {
  for (const [value, ms] of [
    [1, 1],
    [60_000, 60_000],
    [MAX_DURATION, 31_622_400_000],
    ['1ms', 1],
    ['500ms', 500],
    ['60s', 60_000],
    ['5m', 300_000],
    ['1h', 3_600_000],
    ['24h', 86_400_000],
    ['30d', 2_592_000_000],
    ['2w', 1_209_600_000],
    ['366d', 31_622_400_000],
    ['1.5h', 5_400_000],
    ['0.5s', 500],
    ['1.001s', 1_001],
    ['1.10s', 1_100],
    ['4.35s', 4_350],
    ['1.0ms', 1],
    ['060s', 60_000]
  ] as const) {
    t.equal(parseDuration(value), ms, `${JSON.stringify(value)} is ${ms} ms`)
  }
})

t.test('anything else is no duration', async t => {
  const none: unknown[] = [
    ...[0, -0, -1, 1.5, Number.NaN, Infinity, -Infinity, 2 ** 53, MAX_DURATION + 1, 60n, new Number(60)],
    ...['', ' ', '60', '0s', '0.0s', '-1s', '+1s', '1 hour', '1 h', ' 1h', '1h ', '1h\n', '1H', '1M', '1y'],
    ...['h', '.5s', '0x10s', '1e3s', '1e3', 'Infinity', 'Infinitys', 'NaN', '1h30m', '1_000s', '٦s', '１s'],
    ...['1.s', '1.5.5s', '1,5h'],
    ...['0.5ms', '1.0001s', '0.3333333h', '367d', '366.5d', '53w', '99999999999d', `${'9'.repeat(400)}s`],
    ...[
      null,
      undefined,
      true,
      {},
      [],
      ['60s'],
      [60],
      new String('60s'),
      new Date(60),
      Symbol('60s'),
      () => 60
    ],
    { valueOf: () => 60, toString: () => '60s' }
  ]
  for (const value of none) t.equal(parseDuration(value), undefined, `${typeof value} ${String(value)}`)
})

t.test('durations are formatted as a person would write them', async t => {
  for (const [ms, text] of [
    [1, '1ms'],
    [999, '999ms'],
    [1_000, '1s'],
    [1_500, '1500ms'],
    [60_000, '60s'],
    [90_000, '90s'],
    [120_000, '2m'],
    [300_000, '5m'],
    [3_600_000, '1h'],
    [5_400_000, '90m'],
    [86_400_000, '24h'],
    [129_600_000, '36h'],
    [172_800_000, '2d'],
    [604_800_000, '7d'],
    [2_592_000_000, '30d'],
    [MAX_DURATION, '366d']
  ] as const) {
    t.equal(formatDuration(ms), text)
  }
})

t.test('a formatted duration is parsed back exactly', async t => {
  const sizes = [1, 1_000, 60_000, 3_600_000, 86_400_000]
  const round = fc
    .constantFrom(...sizes)
    .chain(size => fc.integer({ min: 1, max: Math.floor(MAX_DURATION / size) }).map(n => n * size))
  fc.assert(fc.property(round, ms => parseDuration(formatDuration(ms)) === ms))
  t.pass('every length')
})

t.test('a decimal is a duration only when it is a whole number of ms', async t => {
  const text = fc.tuple(fc.nat(300), fc.integer({ min: 1, max: 9_999 }), fc.constantFrom('s', 'm'))
  fc.assert(
    fc.property(text, ([whole, decimals, unit]) => {
      const tenThousandths = (whole * 10_000 + decimals) * (unit === 's' ? 1_000 : 60_000)
      const expected = tenThousandths % 10_000 === 0 ? tenThousandths / 10_000 : undefined
      t.equal(parseDuration(`${whole}.${String(decimals).padStart(4, '0')}${unit}`), expected)
    })
  )
})

t.test('any value is parsed to a valid duration or to none', async t => {
  fc.assert(
    fc.property(fc.anything(), value => {
      const ms = parseDuration(value)
      return ms === undefined || (Number.isInteger(ms) && ms > 0 && ms <= MAX_DURATION)
    })
  )
  t.pass('every value')
})
