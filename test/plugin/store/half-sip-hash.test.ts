import fc from 'fast-check'
import t from 'tap'
import { HalfSipHash } from '../../../plugin/store/half-sip-hash.js'

const rotate = (word: number, by: number) => (word << by) | (word >>> (32 - by))

/** HalfSipHash-1-3 as its authors describe it. */
function reference(key: Buffer, bytes: Buffer): [first: number, second: number] {
  let v0 = key.readInt32LE(0)
  let v1 = key.readInt32LE(4) ^ 0xee
  let v2 = 0x6c796765 ^ key.readInt32LE(0)
  let v3 = 0x74656462 ^ key.readInt32LE(4)
  const round = () => {
    v0 = (v0 + v1) | 0
    v1 = rotate(v1, 5) ^ v0
    v0 = rotate(v0, 16)
    v2 = (v2 + v3) | 0
    v3 = rotate(v3, 8) ^ v2
    v0 = (v0 + v3) | 0
    v3 = rotate(v3, 7) ^ v0
    v2 = (v2 + v1) | 0
    v1 = rotate(v1, 13) ^ v2
    v2 = rotate(v2, 16)
  }
  const absorb = (word: number) => {
    v3 ^= word
    round()
    v0 ^= word
  }
  const whole = bytes.length - (bytes.length % 4)
  for (let i = 0; i < whole; i += 4) absorb(bytes.readInt32LE(i))
  absorb((bytes.length << 24) | (whole < bytes.length ? bytes.readUIntLE(whole, bytes.length - whole) : 0))
  v2 ^= 0xee
  for (let i = 0; i < 3; i++) round()
  const first = v1 ^ v3
  v1 ^= 0xdd
  for (let i = 0; i < 3; i++) round()
  return [first, v1 ^ v3]
}

t.test('the hash of any short text is that of the reference', async () => {
  const key = fc.uint8Array({ minLength: 8, maxLength: 8 }).map(bytes => Buffer.from(bytes))
  const text = fc.oneof(fc.string({ maxLength: 40 }), fc.string({ unit: 'binary', maxLength: 120 }))
  fc.assert(
    fc.property(key, text, (key, text) => {
      const hash = new HalfSipHash(key)
      hash.read('another one')
      hash.read(text)
      const [first, second] = reference(key, Buffer.from(text, 'utf16le'))
      return hash.first === first && hash.second === second
    }),
    { numRuns: 2_000 }
  )
})

t.test('long texts are told apart by their last character, even one that has no form in UTF-8', async t => {
  const hash = new HalfSipHash()
  const halves = (text: string) => {
    hash.read(text)
    return `${hash.first} ${hash.second}`
  }
  for (const length of [254, 255, 256, 100_000]) {
    const texts = ['', 'a', 'b', '\ud800', '\udc00', '\ufffd'].map(end => 'x'.repeat(length) + end)
    const found = texts.map(halves)
    t.equal(new Set(found).size, texts.length)
    t.strictSame(texts.map(halves), found)
  }
})

t.test('each hash function has a random key of its own', async t => {
  const halves = [new HalfSipHash(), new HalfSipHash()].map(hash => {
    hash.read('text')
    return `${hash.first} ${hash.second}`
  })
  t.not(halves[0], halves[1])
})
