import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { Arena } from '../../../plugin/store/arena.js'

// How much later than told a record may expire.
const STEP = 2 ** 16
const STAMP = 2 ** 48 - 1
// How much older than the newest stamp of its record a stamp can be, in five bytes.
const REACH = 2 ** 40
const identity = (n: number) => createHash('md5').update(`someone ${n}`).digest('base64url')
const evictable = (series: number) => series >= 2
/** In these series no record is queued behind one that expires later. */
const isOrdered = (series: number) => series % 2 === 0
const stamp = (arena: Arena, record: number, at: number, life: number) => {
  arena.set(record, 0, at)
  arena.touch(record, at + life)
}

/** One record as the model keeps it, with the fields that were set; `touched` gives its place in the queue. */
interface Known {
  who: number
  series: number
  fields: (number | undefined)[]
  touched: number
}

const who = fc.nat(11)
const series = fc.nat(3)
const share = fc.double({ min: 0, max: 0.999, noNaN: true })
const one = <Do extends string, Rest>(weight: number, does: Do, rest: fc.Arbitrary<Rest>) => ({
  weight,
  arbitrary: fc.tuple(who, series, rest).map(([who, series, rest]) => ({ do: does, who, series, ...rest }))
})
const command = fc.oneof(
  one(6, 'resize', fc.record({ n: fc.integer({ min: 1, max: 14 }) })),
  one(1, 'resize', fc.record({ n: fc.integer({ min: 1, max: 2048 }) })),
  one(4, 'set', fc.record({ at: share, value: fc.maxSafeNat() })),
  one(2, 'move', fc.record({ at: share, to: share, count: share })),
  one(4, 'touch', fc.record({ first: fc.nat(3 * STEP), life: fc.nat(6 * STEP) })),
  one(1, 'remove', fc.constant({})),
  one(2, 'expire', fc.record({ passed: fc.nat(2 * STEP), budget: fc.nat(3) }))
)
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never

/** Runs the same commands on the arena and on a plain map. Throws where they differ. */
class Pair {
  readonly model = new Map<string, Known>()
  /** How long the records of a series live after their first field. */
  readonly lives = [0, 0, 0, 0]
  /** By series, the first field of the record that was touched last. */
  readonly lasts = [0, 0, 0, 0]
  /** Series in which a record is queued behind one that expires later, in the order of their turns. */
  readonly mixed: number[] = []
  /** Series in which a first field is earlier than when it was touched: they become mixed when there is no room. */
  readonly lowered = new Set<number>()
  /** Series that ever had a record, in that order. */
  readonly opened = new Set<number>()
  /** Number of the series whose expired records are looked for next. */
  turn = 0
  now = 0
  clock = 0
  full = 0

  constructor(
    readonly arena: Arena,
    readonly maxKeys: number
  ) {}

  run(c: Command): void {
    if (c.do === 'expire') this.expire(c.passed, c.budget)
    else if (c.do === 'resize') this.resize(c.who, c.series, c.n)
    else {
      const record = this.arena.find(identity(c.who), c.series)
      const known = this.model.get(`${c.who}:${c.series}`)
      if (!known) return same(record, 0)
      const { fields } = known
      const place = (part: number) => Math.floor(part * fields.length)
      if (c.do === 'remove') {
        this.arena.remove(record)
        this.model.delete(`${c.who}:${c.series}`)
      } else if (c.do === 'set') {
        fields[place(c.at)] = c.value % (STAMP + 1)
        this.arena.set(record, place(c.at), c.value % (STAMP + 1))
      } else if (c.do === 'touch') {
        const first = isOrdered(c.series) ? c.first % STEP : c.first
        fields[0] = this.now + first
        this.arena.set(record, 0, this.now + first)
        this.lives[c.series] = c.life - first + STEP
        const ordered = this.now + first + STEP >= (this.lasts[c.series] as number)
        if (!ordered && !this.mixed.includes(c.series)) this.mixed.push(c.series)
        this.lasts[c.series] = this.now + first
        known.touched = ++this.clock
        this.arena.touch(record, this.now + c.life)
      } else {
        const [to, from] = [place(c.to), place(c.at)]
        const most = Math.floor(c.count * (fields.length + 1 - Math.max(to, from)))
        const count = fields[from] === undefined ? 0 : most
        fields.splice(to, count, ...fields.slice(from, from + count))
        this.arena.move(record, to, from, count)
        if (to === 0 && from > 0 && count > 0) this.lowered.add(c.series)
      }
    }
    this.compare()
  }

  private resize(who: number, series: number, n: number): void {
    const key = `${who}:${series}`
    const known = this.model.get(key)
    const heads = this.heads()
    const lacks = !known && this.model.size === this.maxKeys
    const due = heads.filter(head => this.expiry(head) <= this.now)
    const may = due.length > 0 ? due : this.ofLongest(heads.filter(head => evictable(head.series)))
    const found = this.arena.find(identity(who), series)
    const record = this.arena.resize(identity(who), series, found, n)
    if (lacks) {
      this.full++
      if (due.length === 0) this.mix()
      const gone = this.gone()
      same(gone.length, may.length > 0 ? 1 : 0)
      same(record !== 0, may.length > 0)
      for (const one of gone) if (!may.includes(one)) throw new Error(`dropped ${one.who}:${one.series}`)
      for (const one of gone) this.model.delete(`${one.who}:${one.series}`)
      if (due.length > 0) this.turn = [...this.opened].indexOf((gone[0] as Known).series)
      if (record === 0) return
    }
    this.opened.add(series)
    const fields = known?.fields ?? []
    while (fields.length < n) fields.push(undefined)
    fields.length = n
    if (!known) {
      fields[0] = STAMP
      this.model.set(key, { who, series, fields, touched: ++this.clock })
    }
  }

  private mix(): void {
    for (const series of this.opened) {
      if (evictable(series) || !this.lowered.delete(series)) continue
      if (!this.mixed.includes(series)) this.mixed.push(series)
    }
  }

  private expiry({ series, fields: [first = 0] }: Known): number {
    return first + (this.lives[series] as number)
  }

  private ofLongest(heads: Known[]): Known[] {
    const count = (series: number) => [...this.model.values()].filter(one => one.series === series).length
    const most = Math.max(...heads.map(head => count(head.series)))
    return heads.filter(head => count(head.series) === most)
  }

  private expire(passed: number, budget: number): void {
    this.now += passed
    const freed = this.arena.expire(this.now, budget)
    const gone = this.gone()
    same(freed, gone.length)
    let left = budget
    for (; left > 0; left--) {
      const head = this.expired(budget)
      if (!head) break
      if (!gone.includes(head)) throw new Error('freed another one')
      this.model.delete(`${head.who}:${head.series}`)
    }
    for (; left > 0 && this.mixed.length > 0; left--) {
      const series = this.mixed.shift() as number
      this.mixed.push(series)
      const head = this.heads().find(one => one.series === series)
      if (!head) continue
      if (this.expiry(head) <= this.now) this.model.delete(`${head.who}:${head.series}`)
      else head.touched = ++this.clock
    }
  }

  private expired(looks: number): Known | undefined {
    const opened = [...this.opened]
    for (let left = Math.min(looks, opened.length); left > 0; left--) {
      const head = this.heads().find(({ series }) => series === opened[this.turn])
      if (head && this.expiry(head) <= this.now) return head
      this.turn = (this.turn + 1) % opened.length
    }
    return undefined
  }

  private heads(): Known[] {
    const heads = new Map<number, Known>()
    for (const one of this.model.values()) {
      if (one.touched < (heads.get(one.series)?.touched ?? Infinity)) heads.set(one.series, one)
    }
    return [...heads.values()]
  }

  private gone(): Known[] {
    return [...this.model.values()].filter(one => this.arena.find(identity(one.who), one.series) === 0)
  }

  private compare(): void {
    same(this.arena.size, this.model.size)
    for (const { who, series, fields } of this.model.values()) {
      const record = this.arena.find(identity(who), series)
      same(this.arena.length(record), fields.length)
      for (const [i, field] of fields.entries())
        if (field !== undefined) same(this.arena.field(record, i), field)
    }
  }
}

function same(is: unknown, should: unknown): void {
  if (is !== should) throw new Error(`${is} should be ${should}`)
}

t.test('the arena agrees with a plain map over random commands', async t => {
  let steps = 0
  let full = 0
  const commands = fc.array(command, { size: 'max', maxLength: 300 })
  fc.assert(
    fc.property(commands, fc.integer({ min: 1, max: 9 }), (list, maxKeys) => {
      const pair = new Pair(new Arena({ maxKeys, evictable }), maxKeys)
      for (const one of list) pair.run(one)
      steps += list.length
      full += pair.full
    }),
    { numRuns: 300 }
  )
  t.comment(`${steps} commands, ${full} of them met a full arena`)
  t.ok(full > 1_000)
})

const kept = (stamps: number[], narrow: boolean) =>
  narrow ? stamps.map(stamp => Math.max(stamp, (stamps[0] as number) - REACH + 1)) : stamps

t.test('records of stamps, newest first, in five bytes or six, agree with a plain list', async t => {
  const step = fc.record({
    who: fc.nat(3),
    refunds: fc.option(share, { freq: 3 }),
    passed: fc.oneof(fc.nat(9), fc.nat(2 ** 33), fc.integer({ min: 2 ** 38, max: 2 ** 40 }), fc.nat(2 ** 42)),
    keep: fc.integer({ min: 1, max: 30 }),
    narrow: fc.oneof({ weight: 5, arbitrary: fc.constant(true) }, fc.boolean())
  })
  let [old, widened] = [0, 0]
  fc.assert(
    fc.property(fc.array(step, { size: 'max', maxLength: 100 }), fc.nat(2 ** 41), (steps, start) => {
      const arena = new Arena({ maxKeys: 4 })
      const model = new Map<number, number[]>()
      const wide = new Set<number>()
      let now = start
      for (const { who, refunds, passed, keep, narrow } of steps) {
        now += passed + 1
        const record = arena.find(identity(who), 1)
        const before = model.get(who) ?? []
        const gone = refunds === null || before.length < 2 ? -1 : Math.floor(refunds * before.length)
        let stamps = before.filter((_, i) => i !== gone)
        if (gone >= 0) {
          arena.move(record, gone, gone + 1, before.length - 1 - gone)
          arena.resize('', 1, record, stamps.length, narrow)
        } else {
          stamps = [now, ...kept(before, narrow)].slice(0, keep)
          const grown = arena.resize(identity(who), 1, record, stamps.length, narrow)
          arena.move(grown, 1, 0, stamps.length - 1)
          arena.set(grown, 0, now)
        }
        if (wide.has(who) && narrow) widened++
        wide[narrow ? 'delete' : 'add'](who)
        const should = kept(stamps, narrow)
        if (should.some((stamp, i) => stamp !== stamps[i])) old++
        model.set(who, should)
        for (const [who, list] of model) {
          const record = arena.find(identity(who), 1)
          same(arena.length(record), list.length)
          for (const [i, stamp] of list.entries()) same(arena.field(record, i), stamp)
        }
      }
    }),
    { numRuns: 300 }
  )
  t.comment(`${old} times a stamp was out of reach, ${widened} times a record changed its width`)
  t.ok(old > 500 && widened > 500)
})

t.test('series, and identities that differ in any of 12 characters, are separate', async t => {
  const arena = new Arena({ maxKeys: 100 })
  const base = 'AbCdEfGhIjKlMnOpQrStUv'
  const all = [base, ...Array.from({ length: 12 }, (_, i) => `${base.slice(0, i)}-${base.slice(i + 1)}`)]
  for (const series of [0, 1, 65_535])
    for (const one of all) arena.set(arena.resize(one, series, 0, 1), 0, series)
  t.equal(arena.size, all.length * 3)
  for (const series of [0, 1, 65_535]) {
    t.same(
      all.map(one => arena.field(arena.find(one, series), 0)),
      all.map(() => series)
    )
  }
})

t.test(
  'floods of half a million keys stay within maxKeys, and drop no live record of another series',
  async t => {
    for (const series of [7, 1]) {
      const arena = new Arena({ maxKeys: 1_000, evictable: series => series === 7 })
      for (let i = 0; i < 900; i++) stamp(arena, arena.resize(identity(i), 1, 0, 3), i, 2 ** 40)
      let [largest, refused] = [0, 0]
      for (let i = 0; i < 500_000; i++) {
        const record = arena.resize(String(i).padStart(12, 'flood-------'), series, 0, (i % 5) + 1)
        if (record === 0) refused++
        else stamp(arena, record, 2 ** 30 + i * STEP, 0)
        largest = Math.max(largest, arena.size)
      }
      t.equal(largest, 1_000)
      t.equal(refused, series === 7 ? 0 : 499_900, 'records without room are refused')
      let kept = 0
      for (let i = 0; i < 900; i++) if (arena.length(arena.find(identity(i), 1)) === 3) kept++
      t.equal(kept, 900, 'no live record of another series was dropped')
    }
  }
)

t.test('expiry frees records in order, queue by queue, and within its budget', async t => {
  const arena = new Arena({ maxKeys: 100 })
  for (let i = 0; i < 20; i++) stamp(arena, arena.resize(identity(i), i % 2, 0, 1), i * STEP, 0)
  const live = () => Array.from({ length: 20 }, (_, i) => i).filter(i => arena.find(identity(i), i % 2) !== 0)
  t.equal(arena.expire(STEP - 1, 9), 0, 'nothing before its time')
  t.equal(arena.expire(12 * STEP, 4), 4)
  t.same(live().slice(0, 6), [1, 3, 5, 7, 8, 9])
  t.equal(arena.expire(12 * STEP, 99), 8)
  t.equal(live()[0], 12)
  stamp(arena, arena.find(identity(12), 0), 89 * STEP, 0)
  t.equal(arena.expire(20 * STEP, 99), 7, 'a record touched again lives on, and does not hold up the others')
  t.same(live(), [12])
})

t.test(
  'expiry looks at no more queues than its budget, and goes on with the next queue the next time',
  async t => {
    const arena = new Arena({ maxKeys: 100 })
    for (let i = 0; i < 20; i++) stamp(arena, arena.resize(identity(i), i, 0, 1), i === 15 ? 0 : 50 * STEP, 0)
    t.equal(arena.expire(STEP, 9), 0)
    t.equal(arena.expire(STEP, 9), 1)
    t.equal(arena.find(identity(15), 15), 0)
  }
)

t.test('in a mixed queue, expiry looks past live heads, at one record for each of its budget', async t => {
  const arena = new Arena({ maxKeys: 100 })
  // In each series two live records are queued before eight expired ones.
  for (let i = 0; i < 20; i++)
    stamp(arena, arena.resize(identity(i), i % 2, 0, 1), (i < 4 ? 50 : 1) * STEP, 0)
  t.equal(arena.expire(10 * STEP, 4), 0)
  t.equal(arena.expire(10 * STEP, 4), 4)
  t.equal(arena.expire(10 * STEP, 99), 12)
  t.equal(arena.size, 4)
  for (let i = 0; i < 4; i++) t.ok(arena.find(identity(i), i % 2))
  t.equal(arena.expire(60 * STEP, 99), 4)
  t.equal(arena.expire(60 * STEP, 99), 0, 'empty')
})

t.test(
  'a record that expires only a little before the head of its queue does not make the queue mixed',
  async t => {
    const arena = new Arena({ maxKeys: 2 })
    stamp(arena, arena.resize(identity(1), 1, 0, 1), 2 * STEP, 0)
    stamp(arena, arena.resize(identity(2), 1, 0, 1), STEP, 0)
    t.equal(arena.expire(3 * STEP - 1, 9), 0)
    t.equal(arena.expire(3 * STEP, 9), 2)
  }
)

t.test('all records of a series live as long after their first field as the last one touched', async t => {
  const arena = new Arena({ maxKeys: 100 })
  stamp(arena, arena.resize(identity(1), 1, 0, 2, true), 1_000, 50 * STEP)
  stamp(arena, arena.resize(identity(2), 1, 0, 2), 2_000, 10 * STEP)
  arena.resize(identity(3), 1, 0, 5)
  t.equal(arena.expire(11 * STEP + 999, 9), 0)
  t.equal(arena.expire(11 * STEP + 1_000, 9), 1)
  t.equal(arena.find(identity(1), 1), 0)
  t.equal(arena.expire(2 ** 47, 9), 1, 'a record that was never set has no expiry')
  t.ok(arena.find(identity(3), 1))
})

t.test('a record that was removed is not found, though its number serves another key', async t => {
  const arena = new Arena({ maxKeys: 3 })
  const find = (who: number) => arena.find(identity(who), 1)
  t.equal(find(1), 0)
  const record = arena.resize(identity(1), 1, 0, 1)
  t.equal(find(1), record)
  arena.remove(record)
  t.equal(find(1), 0)
  t.equal(arena.resize(identity(2), 1, 0, 1), record, 'its number serves another key')
  t.equal(find(1), 0)
  arena.remove(find(2))
  t.equal(find(2), 0)
  t.equal(arena.resize(identity(3), 2, 0, 1), record)
  t.equal(find(2), 0)
})

t.test('the arena stays within maxBytes, and uses freed room again', async t => {
  const maxPages = 50
  const arena = new Arena({
    maxKeys: 500_000,
    maxBytes: maxPages * 49_152,
    evictable: series => series === 7
  })
  // The memory for records and for the first page is taken here, once and for all.
  arena.remove(arena.resize(identity(0), 1, 0, 1000))
  const rest = arena.bytes
  const fill = (n: number) => {
    let count = 0
    while (arena.resize(identity(count), 1, 0, n) !== 0) count++
    return count
  }
  t.equal(fill(1000), maxPages * 8)
  t.equal(arena.bytes, rest + (maxPages - 1) * 49_152)

  const record = arena.find(identity(0), 1)
  arena.set(record, 999, STAMP)
  t.equal(arena.resize('', 1, record, 1), record, 'fewer fields are always possible')
  t.equal(arena.resize('', 1, record, 1024), record, 'it keeps its room while there is no smaller cell')
  t.equal(arena.resize('', 1, record, 1024, true), record, 'nor a cell of another width')
  t.equal(arena.resize(identity(999), 1, 0, 1), 0)

  for (let i = 0; i < maxPages * 8; i++) arena.remove(arena.find(identity(i), 1))
  t.equal(fill(1), maxPages * 8192, 'an empty page serves another size')
  for (let i = 0; i < maxPages * 8192; i += 3) arena.remove(arena.find(identity(i), 1))
  fill(1)
  t.equal(arena.size, maxPages * 8192, 'the room of single records is used again')
  t.equal(arena.resize('', 1, arena.find(identity(5), 1), 2), 0, 'no room to grow')
  t.equal(arena.length(arena.find(identity(5), 1)), 1, 'the record is as it was')

  for (let i = 0; i < 8192; i++) arena.remove(arena.find(identity(i), 1))
  for (let i = 0; i < 8; i++) stamp(arena, arena.resize(identity(i), 7, 0, 1024), (8 - i) * STEP, 0)
  const grown = arena.resize(identity(8192), 1, arena.find(identity(8192), 1), 2)
  t.ok(grown, 'it grows into the larger room of an evictable record')
  const left = Array.from({ length: 8 }, (_, i) => i).filter(i => arena.find(identity(i), 7) !== 0)
  t.same(left, [1, 2, 3, 4, 5, 6, 7])
})

t.test('free room scattered over pages of one size serves records of another size', async t => {
  for (const stamps of [true, false]) {
    const arena = new Arena({ maxKeys: 10_000, maxBytes: 0 })
    const grow = (who: number, n: number) => {
      const record = arena.resize(identity(who), 1, arena.find(identity(who), 1), n, stamps)
      if (record !== 0)
        for (const [i, field] of [STAMP - who, STAMP - 2 * who].entries()) arena.set(record, i * 63, field)
      return record
    }
    let count = 0
    while (grow(count, 64) !== 0) count++
    t.equal(grow(1, 65), 0)
    const isLeft = (who: number) => who % 4 !== 0
    for (let who = 0; who < count; who += 4) arena.remove(arena.find(identity(who), 1))
    let grown = 0
    for (let who = 0; who < count; who++) if (isLeft(who) && grow(who, 65) !== 0) grown++
    t.ok(grown > 0.15 * count, `${grown} of ${count} grew`)
    for (let who = 0; who < count; who++) {
      const record = arena.find(identity(who), 1)
      same(record !== 0, isLeft(who))
      if (record !== 0)
        same(`${arena.field(record, 0)} ${arena.field(record, 63)}`, `${STAMP - who} ${STAMP - 2 * who}`)
    }
  }
})

t.test('when all records are equally long, one that grows evicts one page of them, and few more', async t => {
  const arena = new Arena({ maxKeys: 10_000, maxBytes: 0, evictable: () => true })
  let count = 0
  for (; arena.size === count; count++) stamp(arena, arena.resize(identity(count), 1, 0, 64, true), 0, STEP)
  const { size } = arena
  // So the records that are evicted next are spread over many pages.
  for (let i = 0; i < 7; i++)
    for (let who = i; who < count; who += 7)
      if (arena.find(identity(who), 1)) arena.touch(arena.find(identity(who), 1), STEP)
  const last = arena.find(identity(count - 1), 1)
  t.equal(arena.resize('', 1, last, 65, true), last)
  t.equal(size - arena.size, 153 + 9)
})

t.test('without maxBytes the arena has room for 16 fields a key, or 24 stamps', async t => {
  for (const [n, stamps] of [
    [16, false],
    [24, true]
  ] as const) {
    const fill = (fields: number) => {
      const arena = new Arena({ maxKeys: 50_000 })
      for (let i = 0; i < 50_000; i++) arena.resize(String(i).padStart(12, '-'), 1, 0, fields, stamps)
      return arena.size
    }
    t.equal(fill(n), 50_000)
    t.ok(fill(n + 1) < 50_000)
  }
})

t.test('a record that grows and shrinks again and again loses no room', async t => {
  const arena = new Arena({ maxKeys: 1, maxBytes: 0 })
  const record = arena.resize(identity(1), 1, 0, 1)
  let lost = 0
  for (let i = 0; i < 1_000; i++) if (arena.resize('', 1, record, i % 2 === 0 ? 1024 : 1) === 0) lost++
  t.equal(lost, 0)
})

t.test('an expired record that grows is not evicted for its own growth', async t => {
  const arena = new Arena({ maxKeys: 1_000, maxBytes: 0, evictable: () => true })
  let count = 0
  for (; count < 42 * 16; count++) stamp(arena, arena.resize(identity(count), 3, 0, 512), 0, STEP)
  arena.expire(2 * STEP, 0)
  const record = arena.find(identity(0), 3)
  arena.set(record, 0, 42)
  t.equal(arena.resize('', 3, record, 1024), record)
  t.equal(arena.field(record, 0), 42)
})

t.test('misuse throws a RangeError', async t => {
  for (const maxKeys of [0, -1, 1.5, Number.NaN, 2 ** 28]) t.throws(() => new Arena({ maxKeys }), RangeError)
  const arena = new Arena({ maxKeys: 2 })
  for (const n of [0, 2049, Number.NaN]) t.throws(() => arena.resize(identity(1), 1, 0, n), RangeError)
  for (const series of [-1, 65_536]) t.throws(() => arena.resize(identity(1), series, 0, 1), RangeError)
  const record = arena.resize(identity(1), 1, 0, 2)
  t.equal(arena.resize(identity(1), 1, 0, 2), record, 'a key has only one record')
  t.throws(() => arena.field(record, 2), RangeError)
  t.throws(() => arena.set(record, -1, 1), RangeError)
  t.throws(() => arena.move(record, 1, 0, 2), RangeError)
  t.throws(() => arena.move(record, -1, 0, 1), RangeError)
  t.throws(() => arena.move(record, 0, -1, 1), RangeError)
  arena.remove(record)
  const stale = [
    () => arena.field(record, 0),
    () => arena.touch(record, 1),
    () => arena.remove(record),
    () => arena.resize(identity(1), 1, record, 1)
  ]
  for (const use of stale) t.throws(use, RangeError)
  t.equal(arena.length(0), 0)
})

t.test('an expired record is not dropped to make room for itself when there is none', t => {
  const arena = new Arena({ maxKeys: 1_000, maxBytes: 0 })
  const grown = arena.resize('grown', 0, 0, 1)
  stamp(arena, grown, 1, 1)
  for (let n = 0; ; n++) {
    const live = arena.resize(`live ${n}`, 1, 0, 2_048)
    if (live === 0) break
    stamp(arena, live, 1, 10 * STEP)
  }
  arena.expire(2 * STEP, 0)
  t.equal(arena.resize('grown', 0, grown, 2_048), 0)
  t.equal(arena.find('grown', 0), grown)
  t.strictSame([arena.length(grown), arena.field(grown, 0)], [1, 1], 'it is as it was')
  t.end()
})
