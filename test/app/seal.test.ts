import { randomBytes } from 'node:crypto'
import t from 'tap'
import { seal, unseal } from '../../app/seal.js'

const key = randomBytes(32)

t.test('a sealed text opens by its key in its context, and looks different each time', async t => {
  const [one, other] = [seal(key, 'text, 文字', 'context'), seal(key, 'text, 文字', 'context')]
  t.not(one.slice(0, 16), other.slice(0, 16), 'no two sealed texts begin alike')
  for (const sealed of [one, other]) t.equal(unseal(key, sealed, 'context'), 'text, 文字')
  t.throws(() => unseal(randomBytes(32), one, 'context'))
  t.throws(() => unseal(key, one, 'another'))
})

t.test('a sealed text that was changed does not open', async t => {
  const bytes = Buffer.from(seal(key, 'text', 'context'), 'base64url')
  t.equal(bytes.length, 12 + 4 + 16)
  for (let i = 0; i < bytes.length; i++) {
    const changed = Buffer.from(bytes)
    changed[i] = (changed[i] as number) ^ 1
    t.throws(() => unseal(key, changed.toString('base64url'), 'context'), `byte ${i}`)
  }
  // Of tags so short one in four thousand millions would be right.
  const short = bytes.subarray(0, 4).toString('base64url')
  t.throws(() => unseal(key, short, 'context'), { code: 'ERR_CRYPTO_INVALID_AUTH_TAG' })
})
