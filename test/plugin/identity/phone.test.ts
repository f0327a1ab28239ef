import { createRequire } from 'node:module'
import fc from 'fast-check'
import {
  type CountryCode,
  getCountries,
  getCountryCallingCode,
  parsePhoneNumberFromString
} from 'libphonenumber-js/max'
import t from 'tap'
import { canonicalPhone, isRegion, phoneCountry } from '../../../plugin/identity/phone.js'
import { plainCountry, plainNumber } from '../../../plugin/identity/plain-number.js'

const examples: Record<string, string> = createRequire(import.meta.url)(
  'libphonenumber-js/examples.mobile.json'
)

const SPELLINGS: [number: string, spellings: [text: string, region: string][]][] = [
  [
    '+8613800138000',
    [
      ['13800138000', 'CN'],
      ['+8613800138000', 'CN'],
      ['+8613800138000', 'US'],
      ['+8613800138000', 'GB'],
      ['138 0013 8000', 'CN'],
      ['138-0013-8000', 'CN'],
      ['138.0013.8000', 'CN'],
      ['138/0013/8000', 'CN'],
      ['(138) 0013-8000', 'CN'],
      ['[138] 0013~8000', 'CN'],
      ['  13800138000\t', 'CN'],
      ['\u00a0138\u00a00013\u20038000\u3000', 'CN'],
      ['138\u20100013\u20118000', 'CN'],
      ['138\u20130013\u20148000', 'CN'],
      ['138\u22120013\u30fc8000', 'CN'],
      ['138\u00b70013\u30fb8000', 'CN'],
      ['1\t3\u20438\u202200\u300213\u204480\u221500', 'CN'],
      [`${' '.repeat(53)}13800138000`, 'CN'],
      ['１３８００１３８０００', 'CN'],
      ['＋８６ １３８ ００１３ ８０００', 'US'],
      ['（＋８６）138－0013－8000', 'GB'],
      ['١٣٨٠٠١٣٨٠٠٠', 'CN'],
      ['۱۳۸۰۰۱۳۸۰۰۰', 'CN'],
      ['१३८००१३८०००', 'CN'],
      ['𝟏𝟑𝟖𝟎𝟎𝟏𝟑𝟖𝟎𝟎𝟎', 'CN'],
      ['1३8００1٣8000', 'CN'],
      ['\u202a+8613800138000\u202c', 'US'],
      ['\ufeff138\u200b0013\u200d8000\u200e', 'CN'],
      ['138\u00ad0013\u20608000', 'CN'],
      ['138\ufe0f0013\ufff98000', 'CN'],
      ['008613800138000', 'CN'],
      ['00 86 138 0013 8000', 'GB'],
      ['011 86 138 0013 8000', 'US'],
      ['8613800138000', 'CN'],
      ['+86 0138 0013 8000', 'US'],
      ['+86 (0) 138 0013 8000', 'GB'],
      ['013800138000', 'CN'],
      ['17951 138 0013 8000', 'CN'],
      ['tel:+8613800138000', 'US'],
      ['TEL:+86-138-0013-8000', 'GB'],
      ['tel:13800138000;phone-context=+86', 'US'],
      ['tel:138-0013-8000;ext=7;phone-context=+86', 'GB'],
      ['\ntel:138-0013-8000;EXT=7;Phone-Context=+86\r\n', 'GB'],
      ['13800138000 ext. 12', 'CN'],
      ['13800138000 extn 12 ', 'CN'],
      ['13800138000, Extension: 12#', 'CN'],
      ['13800138000 доб. 12', 'CN'],
      ['13800138000分机12345678', 'CN'],
      ['13800138000转12', 'CN']
    ]
  ],
  [
    '+12125550123',
    [
      ['212-555-0123', 'US'],
      ['(212) 555-0123', 'US'],
      ['1-212-555-0123', 'US'],
      ['+1 212.555.0123', 'CN'],
      ['001 212 555 0123', 'CN'],
      ['00 1 (212) 555 0123', 'GB'],
      ['+1 (212) 555-0123 x 9', 'GB'],
      ['2125550123x9', 'US'],
      ['2125550123#9', 'US'],
      ['2125550123;ext=9', 'US'],
      ['tel:555-0123;phone-context=+1-212', 'CN']
    ]
  ],
  [
    '+442079460018',
    [
      ['020 7946 0018', 'GB'],
      ['(020) 7946 0018', 'GB'],
      ['(0)20 7946 0018', 'GB'],
      ['+44 (0)20 7946 0018', 'US'],
      ['+44 (0) 20-7946-0018', 'CN'],
      ['+4402079460018', 'CN'],
      ['0044 20 7946 0018', 'GB'],
      ['00442079460018', 'CN'],
      ['011442079460018', 'US'],
      ['442079460018', 'GB'],
      ['tel:020-7946-0018;phone-context=+44', 'US'],
      ['+44 20 7946 0018, ext 3', 'US'],
      ['tel:+44-20-7946-0018;isub=5', 'US']
    ]
  ],
  [
    '+970599123456',
    [
      ['+972599123456', 'CN'],
      ['059-912-3456', 'IL'],
      ['059-912-3456', 'PS'],
      ['972 59 912 3456', 'IL'],
      ['tel:599123456;phone-context=+972', 'US']
    ]
  ],
  ['+97022234567', [['+972 2 223 4567', 'CN']]],
  [
    '+3780549886377',
    [
      ['+39 0549 886377', 'CN'],
      ['0549 886377', 'IT'],
      ['+378 886377', 'CN']
    ]
  ]
]

t.test('every spelling of a phone number has one canonical form', async t => {
  t.ok((SPELLINGS[0]?.[1].length ?? 0) >= 30)
  for (const [number, spellings] of SPELLINGS) {
    for (const [text, region] of spellings) {
      t.equal(canonicalPhone(text, region), number, `${JSON.stringify(text)} in ${region}`)
    }
  }
})

const PAIRS: [a: [string, string], b: [string, string]][] = [
  [
    ['13800138000', 'CN'],
    ['13800138001', 'CN']
  ],
  [
    ['13800138000', 'CN'],
    ['13900138000', 'CN']
  ],
  [
    ['13800138000', 'CN'],
    ['18300138000', 'CN']
  ],
  [
    ['+12125550123', 'US'],
    ['+12125550132', 'US']
  ],
  [
    ['+12125550123', 'US'],
    ['+13125550123', 'US']
  ],
  [
    ['2125550123', 'US'],
    ['2125550123', 'DE']
  ],
  [
    ['020 7946 0018', 'GB'],
    ['020 7946 0019', 'GB']
  ],
  [
    ['020 7946 0018', 'GB'],
    ['0161 496 0018', 'GB']
  ],
  [
    ['+442079460018', 'GB'],
    ['+12079460018', 'GB']
  ],
  [
    ['tel:555-0123;phone-context=+1212', 'US'],
    ['tel:555-0123;phone-context=+1312', 'US']
  ],
  [
    ['010 6554 4210', 'CN'],
    ['021 6554 4210', 'CN']
  ],
  [
    ['+39 06 1234 5678', 'IT'],
    ['+39 02 1234 5678', 'IT']
  ]
]

t.test('a mobile number with the calling code of its region, without a plus, is that number', async t => {
  const regions = ['DE', 'XK', 'ID', 'FI', 'ZA', 'CN', 'GB', 'JP', 'US'] as const
  for (const region of regions) {
    const number = canonicalPhone(examples[region] as string, region)
    t.match(number, /^\+/)
    t.equal(canonicalPhone(number?.slice(1) as string, region), number, region)
  }
  t.equal(canonicalPhone('4915123456789', 'DE'), '+4915123456789')
  t.equal(canonicalPhone('62811234567', 'ID'), '+62811234567')
  t.equal(canonicalPhone('4915123456789', 'FR'), undefined, 'the calling code of another region')
  t.equal(canonicalPhone('491 51234', 'DE'), '+4949151234', 'too short for a mobile number')
  t.equal(canonicalPhone('469014148', 'SE'), '+46469014148', 'both readings are landlines')
  t.equal(canonicalPhone('474 612 3456', 'US'), '+14746123456', 'no mobile number of another region')
  t.equal(canonicalPhone('690 7293', 'MG'), '+261206907293', 'though +6907293 is one')
})

t.test('trunk prefixes are removed until the number is its own canonical form', async t => {
  for (const text of ['+81 90 1234 5678', '+810003768 90 1234 5678', '+8100037680 90 1234 5678'])
    t.equal(canonicalPhone(text, 'CN'), '+819012345678', text)
  t.equal(canonicalPhone('88102891742', 'BY'), undefined)
})

t.test('different phone numbers have different canonical forms', async t => {
  for (const [a, b] of PAIRS) {
    t.type(canonicalPhone(...a), 'string', a[0])
    t.not(canonicalPhone(...a), canonicalPhone(...b), `${a} ≠ ${b}`)
  }
})

const NO_NUMBER: [what: string, text: string][] = [
  ['empty', ''],
  ['space', '   '],
  ['a plus', '+'],
  ['letters', 'hello'],
  ['number in a sentence', 'call me 13800138000'],
  ['number before a sentence', '13800138000 call me'],
  ['vanity letters', '1-800-FLOWERS'],
  ['too short', '1380013800'],
  ['too long', '138001380001'],
  ['far too long', '1'.repeat(40)],
  ['a short code', '110'],
  ['no such area', '+1 000 555 0123'],
  ['no such country', '+999 13800138000'],
  ['a Mexican number as it was until 2019', '+52 1 55 1234 5678'],
  ['a Brazilian mobile number without its ninth digit', '+55 11 8123 4567'],
  ['prefix of another region', '011 86 138 0013 8000'],
  ['two pluses', '++8613800138000'],
  ['plus inside', '86+13800138000'],
  ['two numbers, comma', '13800138000,13900139000'],
  ['short second number, comma', '13800138000,1390013'],
  ['short second number, semicolon', '13800138000;1390013'],
  ['two numbers, space', '13800138000 13900139000'],
  ['two numbers, slash', '13800138000/13900139000'],
  ['two numbers, line feed', '13800138000\n13900139000'],
  ['line feed inside', '138\r\n00138000'],
  ['NUL', '13800138000\0'],
  ['lone surrogate', '13800138000\ud800'],
  ['underscores', '138_0013_8000'],
  ['exponent', '1.38e10'],
  ['extension alone', 'ext. 12'],
  ['a number as extension', '13800138000 x 13900139000'],
  ['long extension', '13800138000 x 123456789'],
  ['tel without number', 'tel:'],
  ['tel with a domain as context', 'tel:13800138000;phone-context=example.com'],
  ['tel with a context without a plus', 'tel:13800138000;phone-context=86'],
  ['tel with an empty extension', 'tel:+8613800138000;ext='],
  ['tel with two contexts', 'tel:13800138000;phone-context=+86;phone-context=+1'],
  ['tel with two contexts, the last one right', 'tel:13800138000;phone-context=+1;phone-context=+86'],
  ['two numbers, comma in an extension', 'tel:+8613800138000;ext=1,13900139000'],
  ['two numbers, comma in a subaddress', 'tel:+8613800138000;isub=1，13900139000'],
  ['tel global with context', 'tel:+8613800138000;phone-context=+1'],
  ['tel with an unknown parameter', 'tel:+8613800138000;to=+12125550123'],
  ['percent encoding', 'tel:%2B8613800138000'],
  ['padded past the limit', `${' '.repeat(54)}13800138000`]
]

t.test('a text that is not exactly one possible phone number has no canonical form', async t => {
  for (const [what, text] of NO_NUMBER) t.equal(canonicalPhone(text, 'CN'), undefined, what)
})

t.test('texts of a megabyte have no canonical form', async t => {
  for (const unit of ['1', ' ', '(', '+', 'x1', ',\t', '\u200b', '\ufdfa', '१']) {
    t.equal(canonicalPhone(unit.repeat(2 ** 20), 'CN'), undefined)
  }
})

t.test('an unknown region counts as none, and takes no memory, since a client may name any', async t => {
  const before = process.memoryUsage().arrayBuffers
  for (let i = 0; i < 1_000; i++) {
    const region = `X${i}`
    if (canonicalPhone('138 0013 8000', region) !== undefined) t.fail(region)
    if (phoneCountry('+86 138 0013 8000', region) !== 'CN') t.fail(region)
  }
  t.ok(process.memoryUsage().arrayBuffers - before < 2 ** 20)
})

t.test('a calling code is no region, however the number is written', async t => {
  for (const text of ['13800138000', '138 0013 8000', '013800138000'])
    t.equal(canonicalPhone(text, '86'), undefined, text)
  t.equal(canonicalPhone('+8613800138000', '86'), '+8613800138000')
  t.equal(phoneCountry('2125551234', '1'), undefined)
})

t.test('no text throws, and the canonical form of a canonical form is itself in every region', async () => {
  const region = fc.constantFrom(...getCountries())
  const dialled = fc.array(fc.constantFrom(...'+0123456789 -.()/x#,;tel:=&१１\u200b\u202a'), {
    maxLength: 30
  })
  const number = fc
    .tuple(
      fc.constantFrom('+86', '+1', '+44', '+39', '+49', '+54', '+55', '+52', '0', ''),
      fc.stringMatching(/^[0-9]{6,11}$/)
    )
    .map(parts => parts.join(''))
  const text = fc.oneof(
    number,
    dialled.map(all => all.join('')),
    fc.string({ unit: 'binary' }),
    fc.array(fc.integer({ min: 0, max: 0xffff })).map(units => String.fromCharCode(...units))
  )
  fc.assert(
    fc.property(text, region, region, (text, region, other) => {
      const canonical = canonicalPhone(text, region)
      if (canonical === undefined) return
      if (!/^\+[1-9][0-9]+$/.test(canonical)) throw new Error(canonical)
      if (canonicalPhone(canonical, other) !== canonical) throw new Error(`${canonical} in ${other}`)
    }),
    { numRuns: 3000 }
  )
})

t.test('separators anywhere between the digits do not change the canonical form', async () => {
  const noise = fc.array(fc.constantFrom(...' -.()/\u200b\u00a0\u2013'), { maxLength: 3 })
  fc.assert(
    fc.property(fc.array(noise, { minLength: 11, maxLength: 11 }), noises => {
      const text = [...'13800138000'].map((digit, i) => digit + (noises[i] ?? []).join('')).join('')
      return canonicalPhone(text, 'CN') === '+8613800138000'
    })
  )
})

t.test('isRegion accepts country codes that have phone numbers, and nothing else', async t => {
  for (const region of ['CN', 'US', 'GB', 'TA']) t.ok(isRegion(region), region)
  for (const text of ['', 'cn', 'XX', 'CHN', '001', '86', '__proto__', 'constructor', 'toString']) {
    t.notOk(isRegion(text), text)
  }
})

/** The number that the library makes of these digits. */
function asked(digits: string, region: CountryCode): string | undefined {
  const number = parsePhoneNumberFromString(digits, { defaultCountry: region, extract: false })
  return number?.isValid() ? number.number : undefined
}

t.test('a number that plainNumber recognizes is what the library makes of it', async t => {
  const regions = getCountries()
  const digits = fc.stringMatching(/^[0-9]{3,15}$/)
  let recognised = 0
  fc.assert(
    fc.property(
      fc.constantFrom(...regions),
      fc.constantFrom(...regions),
      fc.constantFrom('', '', '+', '0', '00', '1', '8'),
      fc.nat(),
      digits,
      (of, region, prefix, seed, any) => {
        // One in three is any number, the others are similar to existing ones.
        const example = seed % 3 === 0 ? undefined : examples[of]?.slice(0, -3)
        const text = example ? `${example}${String(seed).padStart(3, '0').slice(-3)}` : any
        const calls = ['+', '00'].includes(prefix) || (prefix === '' && seed % 5 === 0)
        const calling = calls && example ? getCountryCallingCode(of) : ''
        const plain = plainNumber(`${prefix}${calling}${text}`, seed % 2 ? of : region)
        if (plain === undefined) return
        recognised++
        t.equal(plain, asked(`${prefix}${calling}${text}`, seed % 2 ? of : region), `${text} ${of} ${region}`)
        const country = parsePhoneNumberFromString(plain)?.country
        t.equal(plainCountry(plain) ?? country, country, plain)
      }
    ),
    { numRuns: 10_000 }
  )
  t.ok(recognised > 1_000, `${recognised}`)
})

t.test('plainNumber recognizes the usual spellings, and leaves the others to the library', async t => {
  t.equal(plainNumber('13800138000', 'CN'), '+8613800138000')
  t.equal(plainNumber('+8613800138000', 'US'), '+8613800138000')
  t.equal(plainNumber('2125550123', 'US'), '+12125550123')
  t.equal(plainNumber('612345678', 'ES'), '+34612345678', 'a region without a trunk prefix')
  for (const [number, country] of Object.entries({
    '+12125550123': 'US',
    '+14165550123': 'CA',
    '+18765550123': 'JM',
    '+442079460018': 'GB',
    '+447624123456': 'IM',
    '+77011234567': 'KZ',
    '+5491123456789': 'AR',
    '+972502345678': 'IL',
    '+85251234567': 'HK'
  })) {
    t.equal(plainNumber(number, 'CN'), number)
    t.equal(plainCountry(number), country)
  }
  t.equal(plainNumber('008613800138000', 'DE'), '+8613800138000')
  t.equal(plainNumber('0118613800138000', 'US'), '+8613800138000')
  t.equal(plainNumber('00800761498', 'PA'), undefined, 'the prefix of calls abroad')
  t.equal(plainNumber('+3758108829285', 'BY'), undefined, 'the number begins like its trunk prefix')
  t.equal(plainNumber('+494924452211426', 'DE'), undefined, 'too long for the country')
  t.equal(plainNumber('07911123456', 'GB'), '+447911123456', 'after a trunk prefix')
  t.equal(plainNumber('015112345678', 'DE'), '+4915112345678')
  t.equal(plainNumber('12125550123', 'US'), '+12125550123', 'the trunk prefix is the calling code as well')
  t.equal(plainNumber('8613800138000', 'CN'), '+8613800138000', 'a calling code without its plus')
  t.equal(plainNumber('919123456789', 'IN'), '+919123456789')
  t.equal(plainNumber('9123456789', 'IN'), '+919123456789', 'the number begins like its calling code')
  t.equal(plainNumber('+4401514960018', 'CN'), '+441514960018')
  t.equal(plainNumber('4915112345678', 'DE'), undefined, 'a number that begins so may be national')
  t.equal(plainNumber('011152345678', 'AR'), undefined, 'the library replaces the 15 by a 9')
  t.equal(plainNumber('0111470287203153', 'GA'), undefined, 'the library makes another number of the prefix')
  t.equal(
    plainNumber('383043328541', 'XK'),
    undefined,
    'a trunk prefix behind a calling code without its plus'
  )
  t.equal(plainNumber('35866066387', 'AX'), undefined, 'behind the calling code, no number of the region')
  t.equal(plainNumber('0013800138000', 'CN'), undefined)
  t.equal(plainNumber('+80012345678', 'CN'), undefined, 'a number of no country')
  t.equal(plainNumber('1380013800', 'CN'), undefined, 'a digit is missing')
})

t.test('phoneCountry gives the country that the library does, however the number is spelled', async t => {
  for (const region of getCountries()) {
    const number = canonicalPhone(examples[region] as string, region)
    if (number === undefined) continue
    const country = parsePhoneNumberFromString(number)?.country
    t.type(country, 'string', region)
    t.equal(phoneCountry(examples[region] as string, region), country, region)
    t.equal(phoneCountry(number), country, number)
  }
  for (const [number, spellings] of SPELLINGS)
    for (const [text, region] of spellings)
      t.equal(phoneCountry(text, region), phoneCountry(number), `${JSON.stringify(text)} in ${region}`)
  const table = {
    CN: '+8613800138000',
    US: '+12125550123',
    CA: '+1 416 555 0123',
    GB: '+442079460018',
    IL: '+972 50 234 5678',
    PS: '+972 59 912 3456',
    KZ: '+7 701 123 4567',
    RU: '+7 916 123 4567'
  }
  for (const [country, number] of Object.entries(table)) t.equal(phoneCountry(number), country)
})

t.test('texts that are no phone number have no country, nor have some numbers', async t => {
  for (const [what, text] of NO_NUMBER) t.equal(phoneCountry(text, 'CN'), undefined, what)
  t.equal(phoneCountry('13800138000'), undefined, 'without a region')
  for (const number of ['+881612345678', '+80012345678']) {
    t.equal(canonicalPhone(number), number)
    t.equal(phoneCountry(number, 'CN'), undefined, number)
  }
})

t.test('a value that is no text has neither canonical form nor country', async t => {
  for (const value of [undefined, null, 13800138000, ['a']] as never[])
    for (const read of [canonicalPhone, phoneCountry]) t.equal(read(value, 'CN'), undefined)
})
