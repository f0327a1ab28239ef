import fc from 'fast-check'
import t from 'tap'
import { boundaries, isTimeZone, PERIODS, type Period } from '../../plugin/calendar.js'
import type { Limit } from '../../plugin/index.js'
import { compileLimits } from '../../plugin/limits/compile.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const WEEK = 7 * DAY
const ZONES = Intl.supportedValuesOf('timeZone')
const FIRST = Date.UTC(2000, 0, 1)
const LAST = Date.UTC(2100, 0, 1)

// The clock of the check uses Intl alone: "2024-03-31 00:00:00" (Swedish writes ISO dates).
const formats = new Map<string, Intl.DateTimeFormat>()
function local(at: number, zone: string): string {
  let format = formats.get(zone)
  if (format === undefined) {
    format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' })
    formats.set(zone, format)
  }
  return format.format(at)
}
const dateAt = (at: number, zone: string) => local(at, zone).slice(0, 10)
const readsFullHour = (at: number, zone: string) => local(at, zone).endsWith(':00:00')
const offset = (at: number, zone: string) => Date.parse(`${local(at, zone).replace(' ', 'T')}Z`) - at

/** The first instant from `from` on, within 400 days, at which the zone's offset changes; or `from` itself */
function nextChange(from: number, zone: string): number {
  const start = Math.floor(from / 1_000) * 1_000
  for (let day = start; day < start + 400 * DAY; day += WEEK) {
    if (offset(day, zone) === offset(day + WEEK, zone)) continue
    let [before, after] = [day, day + WEEK]
    while (after - before > 1_000) {
      const middle = before + Math.floor((after - before) / 2_000) * 1_000
      if (offset(middle, zone) === offset(day, zone)) before = middle
      else after = middle
    }
    return after
  }
  return from
}

const zone = fc.constantFrom(...ZONES)
const instant = fc.integer({ min: FIRST, max: LAST })
const period = fc.constantFrom(...PERIODS)
const nearChange = fc
  .tuple(zone, instant, fc.integer({ min: -26 * HOUR, max: 26 * HOUR }))
  .map(([zone, from, by]) => ({ zone, at: nextChange(from, zone) + by }))
const moment = fc.oneof(fc.record({ zone, at: instant }), nearChange)

/** What is wrong with a start of a period, or '' */
function faultOfStart(per: Period, zone: string, start: number): string {
  if (per === 'hour') return readsFullHour(start, zone) ? '' : 'no full hour'
  const date = dateAt(start, zone)
  const midnight = local(start, zone).endsWith('00:00:00')
  if (!midnight && offset(start - 1_000, zone) === offset(start, zone)) return 'neither midnight nor a change'
  for (let before = start - 3 * HOUR; before < start; before += MINUTE) {
    if (dateAt(before, zone) >= date) return `the date had begun at ${before}`
  }
  if (per === 'month' && !date.endsWith('-01')) return 'no first of a month'
  if (per === 'week' && new Date(`${date}T00:00Z`).getUTCDay() !== 1) return 'no Monday'
  return ''
}

/** What is wrong with the span between two starts in a row, or '' */
function faultOfSpan(per: Period, zone: string, start: number, next: number): string {
  if (per === 'hour') {
    for (let at = start + MINUTE; at < next; at += MINUTE) {
      if (readsFullHour(at, zone)) return `a full hour inside, at ${at}`
    }
    return ''
  }
  const [from, to] = [dateAt(start, zone), dateAt(next, zone)]
  if (per === 'month') {
    const months = (date: string) => Number(date.slice(0, 4)) * 12 + Number(date.slice(5, 7))
    return months(to) - months(from) === 1 ? '' : 'not one month'
  }
  // Dates that there were in the zone, since Samoa and Tokelau left one out.
  const dates = new Set<string>()
  for (let at = start; at < next; at += 6 * HOUR) dates.add(dateAt(at, zone))
  if (per === 'day') return dates.size === 1 ? '' : `${dates.size} dates`
  return Date.parse(to) - Date.parse(from) === 7 * DAY ? '' : 'not seven dates'
}

function holds(per: Period, zone: string, at: number): void {
  const starts = boundaries(per, zone, at)
  const say = (fault: string) => `${per} ${zone} ${new Date(at).toISOString()} [${starts}]: ${fault}`
  const [previous, start, next, later] = starts
  if (starts.length !== 4 || !starts.every(Number.isInteger)) throw new Error(say('not four instants'))
  if (!(start <= at && at < next)) throw new Error(say('does not hold the instant'))
  if (!(previous < start && next < later)) throw new Error(say('does not increase'))
  for (const [from, to] of [
    [previous, start],
    [start, next],
    [next, later]
  ] as const) {
    const fault = faultOfStart(per, zone, from) || faultOfSpan(per, zone, from, to)
    if (fault !== '') throw new Error(say(fault))
  }
}

function meets(per: Period, zone: string, at: number): void {
  const [previous, start, next, later] = boundaries(per, zone, at)
  const after = boundaries(per, zone, next)
  const before = boundaries(per, zone, start - 1)
  const joined = after[0] === start && after[1] === next && after[2] === later
  if (!joined || before[1] !== previous || before[2] !== start) throw new Error(`${per} ${zone} ${at}: a gap`)
}

t.test('the boundaries of a period are where an independent local clock has them', async t => {
  fc.assert(
    fc.property(period, moment, (per, { zone, at }) => holds(per, zone, at)),
    { numRuns: 300 }
  )
  t.pass('300 moments')
})

t.test('a period ends where the next one begins', async t => {
  const run = fc.property(period, moment, (per, { zone, at }) => meets(per, zone, at))
  fc.assert(run, { numRuns: 300 })
  t.pass('300 moments')
})

t.test('boundaries are right around a change of the clock in every zone that the runtime lists', async t => {
  const [at] = fc.sample(instant, 1) as [number]
  for (const zone of ZONES) {
    const change = nextChange(at, zone)
    for (const per of PERIODS) holds(per, zone, change)
  }
  t.pass(`${ZONES.length} zones`)
})

t.test(
  'boundaries are right in zones that shift by half an hour or begin a date twice, through the years',
  async t => {
    for (let year = 2000; year < 2100; year += year < 2012 ? 3 : 11) {
      for (const zone of ['Australia/Lord_Howe', 'America/St_Johns', 'Antarctica/Troll']) {
        let change = Date.UTC(year, 0, 1)
        for (let n = 0; n < 2; n++) {
          change = nextChange(change + 1_000, zone)
          for (const by of [-1, 20 * MINUTE, 70 * MINUTE]) {
            for (const per of year === 2009 ? PERIODS : (['hour', 'day'] as const)) {
              holds(per, zone, change + by)
              meets(per, zone, change + by)
            }
          }
        }
      }
    }
    t.pass('each change')
  }
)

const utc = (time: string) => Date.parse(`${time.replace(' ', 'T')}Z`)

t.test('boundaries are right on known special dates', async t => {
  for (const [per, zone, at, start, next, why] of [
    ['day', 'Asia/Beirut', '2022-03-27 10:00', '2022-03-26 22:00', '2022-03-27 21:00', 'no midnight'],
    ['day', 'America/Sao_Paulo', '2018-11-04 10:00', '2018-11-04 03:00', '2018-11-05 02:00', 'no midnight'],
    ['day', 'America/Sao_Paulo', '2018-02-18 02:30', '2018-02-17 02:00', '2018-02-18 03:00', '23:00 twice'],
    ['day', 'Africa/Cairo', '2023-04-28 10:00', '2023-04-27 22:00', '2023-04-28 21:00', 'no midnight'],
    ['day', 'America/Havana', '2023-11-05 05:30', '2023-11-05 04:00', '2023-11-06 05:00', '00:00 twice'],
    ['day', 'Europe/Paris', '2024-03-31 12:00', '2024-03-30 23:00', '2024-03-31 22:00', '23 hours'],
    ['day', 'Europe/Paris', '2024-10-27 12:00', '2024-10-26 22:00', '2024-10-27 23:00', '25 hours'],
    ['day', 'Pacific/Apia', '2011-12-30 09:59', '2011-12-29 10:00', '2011-12-30 10:00', 'no 30 December'],
    ['day', 'Pacific/Apia', '2011-12-30 10:00', '2011-12-30 10:00', '2011-12-31 10:00', '31 December'],
    ['day', 'America/St_Johns', '2009-11-01 02:31', '2009-11-01 02:30', '2009-11-02 03:30', 'back at 00:01'],
    ['day', 'Asia/Shanghai', '2024-06-30 15:59:59.999', '2024-06-29 16:00', '2024-06-30 16:00', 'last ms'],
    ['week', 'Pacific/Apia', '2011-12-30 10:00', '2011-12-26 10:00', '2012-01-01 10:00', 'six days'],
    ['week', 'UTC', '2024-12-31 12:00', '2024-12-30 00:00', '2025-01-06 00:00', 'over the year'],
    ['week', 'Europe/Paris', '2024-03-31 21:59', '2024-03-24 23:00', '2024-03-31 22:00', 'ends on Sunday'],
    [
      'month',
      'America/St_Johns',
      '2009-11-01 02:31',
      '2009-11-01 02:30',
      '2009-12-01 03:30',
      'back at 00:01'
    ],
    ['month', 'Asia/Shanghai', '2024-02-29 15:59', '2024-01-31 16:00', '2024-02-29 16:00', '29 days'],
    ['month', 'Asia/Amman', '2022-04-01 00:00', '2022-03-31 21:00', '2022-04-30 21:00', 'summer'],
    ['hour', 'Asia/Kathmandu', '2024-05-01 07:10', '2024-05-01 06:15', '2024-05-01 07:15', 'offset 5:45'],
    ['hour', 'Europe/Paris', '2024-10-27 00:30', '2024-10-27 00:00', '2024-10-27 01:00', '02:30 first'],
    ['hour', 'Europe/Paris', '2024-10-27 01:30', '2024-10-27 01:00', '2024-10-27 02:00', '02:30 again'],
    [
      'hour',
      'Australia/Lord_Howe',
      '2024-04-06 15:10',
      '2024-04-06 14:00',
      '2024-04-06 15:30',
      '01:30 twice'
    ],
    ['hour', 'Australia/Lord_Howe', '2024-10-05 15:40', '2024-10-05 14:30', '2024-10-05 16:00', 'no 02:00'],
    ['hour', 'Asia/Pyongyang', '2018-05-04 14:50', '2018-05-04 14:30', '2018-05-04 15:00', '23:30 is 00:00'],
    ['hour', 'America/Caracas', '2016-05-01 06:59', '2016-05-01 06:30', '2016-05-01 07:00', '02:30 is 03:00']
  ] as const) {
    const [, from, to] = boundaries(per, zone, utc(at))
    holds(per, zone, utc(at))
    meets(per, zone, utc(at))
    t.same([from, to], [utc(start), utc(next)], `${per} of ${at} in ${zone}: ${why}`)
  }
})

t.test('a day has as many hour periods as the local clock ran', async t => {
  for (const [zone, noon, count] of [
    ['Europe/Paris', '2024-10-27T12:00Z', 25],
    ['Europe/Paris', '2024-03-31T12:00Z', 23],
    ['Europe/Paris', '2024-06-30T12:00Z', 24],
    ['Australia/Lord_Howe', '2024-04-07T02:00Z', 24],
    ['Australia/Lord_Howe', '2024-10-06T02:00Z', 23]
  ] as const) {
    const [, start, next] = boundaries('day', zone, Date.parse(noon))
    let hours = 0
    for (let at = start; at < next; at = boundaries('hour', zone, at)[2]) hours++
    t.equal(hours, count, `${zone} ${noon}`)
  }
})

t.test('the cache changes no boundaries, whether time goes forward or back', async t => {
  const steps = fc.array(fc.tuple(period, fc.integer({ min: -40 * DAY, max: 40 * DAY })), { minLength: 2 })
  // Another spelling of the name is another entry of the cache.
  const alias = (zone: string, n: number) =>
    [...zone].map((c, i) => ((n >> (i % 20)) & 1 ? c.toUpperCase() : c.toLowerCase())).join('')
  let fresh = 0
  const zones = fc.constantFrom('Europe/Paris', 'Australia/Lord_Howe', 'Pacific/Apia')
  fc.assert(
    fc.property(zones, instant, steps, (zone, from, steps) => {
      let at = from
      for (const [per, by] of steps) {
        at += by
        const uncached = boundaries(per, alias(zone, ++fresh), at)
        const seen = boundaries(per, zone, at)
        const again = boundaries(per, zone, at)
        if (`${seen}` === `${uncached}` && again === seen) continue
        throw new Error(`${per} ${zone} ${at}: ${seen}, not ${uncached}`)
      }
    })
  )
  t.pass('every walk')
})

/** One of very many spellings of the same zone. */
function spelling(n: number): string {
  const letters = [...'comodrivadavia'].map((letter, i) => ((n >> i) % 2 ? letter.toUpperCase() : letter))
  return `America/Argentina/${letters.join('')}`
}

t.test(
  'the cache holds the current period of all listed zones, and drops the oldest of a thousand',
  async t => {
    const at = Date.UTC(2024, 5, 30, 12)
    const first = boundaries('day', 'Asia/Shanghai', at)
    t.equal(boundaries('day', 'Asia/Shanghai', first[2] - 1), first, 'up to its last ms')
    t.equal(boundaries('day', 'Asia/Shanghai', first[1] + 0.5), first, 'at a fraction of a ms')
    t.equal(boundaries('day', 'Asia/Shanghai', first[2] + 0.5)[1], first[2], 'not beyond its end')
    t.ok(Object.isFrozen(first), 'shared boundaries cannot be changed')
    const kept = boundaries('day', 'Asia/Shanghai', at)
    const all = ZONES.map(zone => boundaries('day', zone, at))
    t.ok(
      ZONES.every((zone, i) => boundaries('day', zone, at) === all[i]),
      'all zones are in the cache'
    )
    for (let n = 0; n < 1_000; n++) boundaries('day', spelling(n), at)
    const anew = boundaries('day', 'Asia/Shanghai', at)
    t.not(anew, kept, 'the oldest zone was dropped')
    t.same(anew, kept)
  }
)

t.test('isTimeZone accepts names that the runtime knows, and nothing else', async t => {
  for (const name of ['UTC', 'Asia/Shanghai', 'US/Pacific', 'Etc/GMT-8', 'Asia/Calcutta', 'Asia/Kolkata']) {
    t.ok(isTimeZone(name), name)
    t.equal(boundaries('hour', name, FIRST).length, 4)
  }
  t.same(
    ZONES.filter(zone => !isTimeZone(zone)),
    [],
    'every listed zone'
  )
  const none = ['', '+08:00', '-03', '+0530', 'Z', 'UTC+8', 'Mars/Olympus', 'Europe/', ' UTC', '__proto__']
  for (const name of none) {
    t.notOk(isTimeZone(name), JSON.stringify(name))
  }
  const letters = Array.from({ length: 26 }, (_, i) => String.fromCharCode(65 + i))
  const short = letters.flatMap(a => letters.flatMap(b => letters.map(c => a + b + c)))
  for (const name of short) if (isTimeZone(name)) t.equal(boundaries('day', name, FIRST).length, 4, name)
  t.ok(isTimeZone('EST'))
  for (const other of [undefined, null, 8, {}, ['UTC']]) t.notOk(isTimeZone(other as never), String(other))
})

t.test('an unknown zone or an instant that is no number throws', async t => {
  t.throws(() => boundaries('day', 'Mars/Olympus', FIRST), RangeError)
  t.throws(() => boundaries('day', 'UTC', Number.NaN), RangeError)
})

t.test('isTimeZone knows each spelling of a zone, however many are asked for', async t => {
  for (let n = 0; n < 1_100; n++) {
    const name = spelling(n)
    if (!isTimeZone(name) || isTimeZone(`${name}x`)) t.fail(name)
  }
  t.ok(isTimeZone('Asia/Shanghai'))
})

t.test('no period is longer than the time to live of its count', async t => {
  const named = () => ({ name: 'a', rule: 0, series: 0, observed: false, forgettable: false, inForce: {} })
  const ttlOf = (limit: Limit) => compileLimits([limit], 'limits', named)[0]?.spec.ttl as number
  for (const [per, timeZone, day] of [
    ['hour', 'Australia/Lord_Howe', '2026-04-05'],
    ['day', 'Europe/Berlin', '2026-10-25'],
    ['day', 'Antarctica/Troll', '2026-10-25'],
    ['week', 'Antarctica/Troll', '2026-10-25'],
    ['month', 'Antarctica/Troll', '2026-10-25'],
    ['day', 'Antarctica/Casey', '2023-03-09'],
    ['week', 'Antarctica/Casey', '2023-03-09'],
    ['month', 'Antarctica/Casey', '2023-03-09']
  ] as const) {
    const ttl = ttlOf({ max: 1, per, timeZone })
    for (let at = Date.parse(day) - DAY; at < Date.parse(day) + DAY; at += HOUR / 4) {
      const [, start, next] = boundaries(per, timeZone, at)
      if (next - start > ttl) t.fail(`${per} of ${timeZone}: ${next - start} > ${ttl}`)
    }
  }
  // A log lives two milliseconds longer than its window, since Redis expires keys by whole milliseconds.
  t.equal(ttlOf({ max: 1, window: '60s' }), 60_002)
})
