import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { canonicalJson, hasher } from '../../../plugin/identity/digest.js'

const DIFFERENT: unknown[] = [
  undefined,
  null,
  true,
  false,
  0,
  1,
  -1,
  1.5,
  1e21,
  NaN,
  Infinity,
  -Infinity,
  1n,
  -1n,
  '',
  '0',
  '1',
  '1n',
  'true',
  'null',
  'undefined',
  'NaN',
  '[]',
  '{}',
  '""',
  '\\',
  '"',
  '\ud800',
  '\ud801',
  '\udc00',
  '\ufffd',
  '\\ud800',
  '\u{1f600}',
  '\0',
  'é',
  'e\u0301',
  [],
  {},
  [[]],
  [{}],
  [null],
  [undefined],
  [''],
  [1],
  ['1'],
  [1, 2],
  [2, 1],
  [12],
  ['1,2'],
  ['1', '2'],
  [[1], 2],
  [[1, 2]],
  [1, [2]],
  ['a', 'bc'],
  ['ab', 'c'],
  ['abc'],
  ['a","b'],
  ['a', 'b'],
  { a: 1 },
  { a: '1' },
  { a: true },
  { a: null },
  { a: undefined },
  { a: [] },
  { a: {} },
  { A: 1 },
  { b: 1 },
  { a: 1, b: 2 },
  { a: 2, b: 1 },
  { a: { b: 2 } },
  { 'a":1,"b': 2 },
  { 0: 'a' },
  ['a'],
  { '': 1 },
  JSON.parse('{"__proto__":1}'),
  JSON.parse('{"__proto__":{"a":1}}'),
  { constructor: 1 },
  { toJSON: 1 },
  new Date(0),
  new Date(1),
  new Date(NaN),
  'Date(0)',
  '1970-01-01T00:00:00.000Z',
  Buffer.from('ff', 'hex'),
  Buffer.from('00ff', 'hex'),
  'Bytes(ff)',
  'ff',
  Buffer.alloc(0)
]

t.test('different values have different canonical texts', async t => {
  const texts = new Map<string, unknown>()
  for (const value of DIFFERENT) {
    const text = canonicalJson(value)
    t.notOk(texts.has(text), text)
    texts.set(text, value)
  }
})

const EQUAL: [a: unknown, b: unknown][] = [
  [
    { a: 1, b: 2 },
    { b: 2, a: 1 }
  ],
  [[{ x: { b: 1, a: [] }, c: 0 }], [{ c: 0, x: { a: [], b: 1 } }]],
  [0, -0],
  [[-0], [0]],
  [1, 1.0],
  [{ a: 1 }, Object.assign(Object.create(null), { a: 1 })],
  [{ a: 1 }, Object.assign(Object.create({ inherited: 1 }), { a: 1 })],
  [{ a: 1 }, { a: 1, [Symbol('s')]: 2 }],
  [{ a: 1 }, Object.defineProperty({ a: 1 }, 'hidden', { value: 2 })],
  [JSON.parse('{"__proto__":1,"a":2}'), JSON.parse('{"a":2,"__proto__":1}')],
  [new Date(5), new Date(5)],
  [Buffer.from('ab'), new Uint8Array([97, 98])]
]

t.test('equal values have the same canonical text', async t => {
  for (const [a, b] of EQUAL) t.equal(canonicalJson(a), canonicalJson(b))
  t.equal(canonicalJson({ b: [1, 'x', null], a: {} }), '{"a":{},"b":[1,"x",null]}')
  const own = [undefined, NaN, 1n, new Date(0), Buffer.from('ff', 'hex')]
  t.equal(canonicalJson(own), '[undefined,NaN,1n,Date(0),Bytes(ff)]')
})

/** The same value with the members of every object in another order. */
function reordered(value: unknown, turn: number): unknown {
  if (Array.isArray(value)) return value.map(item => reordered(item, turn))
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, item]) => [name, reordered(item, turn)] as const)
  const at = members.length === 0 ? 0 : turn % members.length
  return Object.fromEntries([...members.slice(at).reverse(), ...members.slice(0, at)])
}

t.test('the order of members does not change the canonical text, at any depth', async () => {
  fc.assert(
    fc.property(
      fc.jsonValue({ stringUnit: 'binary' }),
      fc.nat(),
      (value, turn) => canonicalJson(reordered(value, turn)) === canonicalJson(value)
    ),
    { numRuns: 1000 }
  )
})

t.test('a JSON value can be parsed back from its canonical text', async () => {
  const plain = (value: unknown) => JSON.parse(JSON.stringify(value))
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), value =>
      isDeepStrictEqual(JSON.parse(canonicalJson(plain(value))), plain(value))
    ),
    { numRuns: 1000 }
  )
})

t.test('canonical texts are equal exactly when the values are', async () => {
  const name = fc.constantFrom('a', 'b', '__proto__')
  const { tree } = fc.letrec<{ tree: unknown }>(tie => ({
    tree: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      fc.constantFrom(0, 1, '1', '', 'a', true, null, undefined, 1n),
      fc.array(tie('tree'), { maxLength: 2 }),
      fc.dictionary(name, tie('tree'), { maxKeys: 2, noNullPrototype: true })
    )
  }))
  let equal = 0
  fc.assert(
    fc.property(tree, tree, (a, b) => {
      const same = isDeepStrictEqual(a, b)
      if (same) equal++
      return (canonicalJson(a) === canonicalJson(b)) === same
    }),
    { numRuns: 10_000 }
  )
  t.ok(equal > 100, 'many of the pairs were equal')
})

t.test('values nested more than 64 deep, or circular, throw a RangeError', async t => {
  const nested = (depth: number, open: string, close: string) =>
    JSON.parse(open.repeat(depth) + 1 + close.repeat(depth))
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}']
  ] as const) {
    t.type(canonicalJson(nested(64, open, close)), 'string')
    t.throws(() => canonicalJson(nested(65, open, close)), RangeError)
    t.throws(() => canonicalJson(nested(5_000, open, close)), RangeError)
  }
  const circle: Record<string, unknown> = {}
  circle.self = circle
  t.throws(() => canonicalJson(circle), RangeError)
})

t.test('values that hide their content throw a TypeError', async t => {
  const hidden = [
    () => 1,
    Symbol('s'),
    new Map([[1, 2]]),
    new Set([1]),
    /x/,
    new URLSearchParams('a=1'),
    Object(1),
    Promise.resolve(1),
    new Error('x'),
    new DataView(new ArrayBuffer(1))
  ]
  for (const value of hidden) t.throws(() => canonicalJson([value]), TypeError)
})

t.test('values of a megabyte have a canonical text', async t => {
  const wide = Object.fromEntries(Array.from({ length: 80_000 }, (_, i) => [`k${(i * 7919) % 80_000}`, i]))
  for (const value of ['x'.repeat(2 ** 20), '\ud800'.repeat(2 ** 18), Array(2 ** 19).fill(0), wide]) {
    t.ok(canonicalJson(value).length > 2 ** 19)
  }
})

t.test('a hash depends on algorithm, secret and every character of the text', async t => {
  for (const algorithm of ['md5', 'sha256'] as const) {
    const hash = hasher(algorithm, 'secret')
    const key = createHash('sha256').update('secret')
    const prefix = algorithm === 'md5' ? key.digest('hex') : key.digest('base64url').slice(0, 22)
    t.equal(hash('text'), createHash(algorithm).update(`${prefix}text`).digest('base64url').slice(0, 22))
    t.match(hash(''), /^[\w-]{22}$/)
    t.equal(hash('text'), hasher(algorithm, 'secret')('text'))
    t.not(hash('text'), hasher(algorithm, 'other')('text'))
    t.not(hasher(algorithm, 'ab')('c'), hasher(algorithm, 'a')('bc'), 'secret and text do not run together')
    const texts = [
      '',
      'a',
      'b',
      'A',
      'a ',
      '\0',
      '\ud800',
      '\ud801',
      '\udc00',
      '\ufffd',
      'a\ud800',
      '\ud800a',
      'é',
      'e\u0301',
      '\u{1f600}',
      '\ud83d',
      '\ude00\ud83d',
      'x'.repeat(2 ** 20)
    ]
    t.equal(new Set(texts.map(hash)).size, texts.length, 'lone surrogates are characters of their own')
  }
  t.not(hasher('md5', 's')('x'), hasher('sha256', 's')('x'))
  t.throws(() => hasher('none' as 'md5', 's'), 'an unknown algorithm throws before the first text')
})

t.test('random texts have the same hash only when they are equal', async () => {
  const hash = hasher('md5', 'secret')
  const unit = fc.constantFrom('a', '\ud83d', '\ude00', '\ufffd')
  const text = fc.array(unit, { maxLength: 4 }).map(units => units.join(''))
  fc.assert(
    fc.property(text, text, (a, b) => (hash(a) === hash(b)) === (a === b)),
    { numRuns: 5000 }
  )
})
