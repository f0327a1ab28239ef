import fc, { type Arbitrary } from 'fast-check'

/** What a header may hold once it has passed the parser of HTTP: no line ends, nothing past latin1. */
const oddHeader = fc.oneof(
  fc.constantFrom('', ' ', ',', '*', 'null', '__proto__', 'constructor', '"', '""', '"a', 'a'.repeat(5_000)),
  fc.string({
    maxLength: 80,
    unit: fc
      .nat(0xff)
      .filter(isHeaderByte)
      .map(each => String.fromCharCode(each))
  })
)

function isHeaderByte(byte: number): boolean {
  return byte === 9 || (byte >= 0x20 && byte !== 0x7f)
}

/** Meaningful values, right and wrong. */
const SOME: Record<string, readonly string[]> = {
  'accept-language': [
    'zh',
    'zh-Hant-HK;q=0.9, en;q=0.1',
    'en;q=abc',
    '*',
    ';q=1',
    'x-klingon',
    'zh;q=0',
    ', ,en'
  ],
  'content-type': [
    'application/json',
    'text/plain',
    'application/json; charset=latin1',
    'application/json;',
    'application/jsonx'
  ],
  'idempotency-key': ['"k"', 'k', 'a, b', '"a";x=1', 'k'.repeat(64), 'k'.repeat(65), '"\\""'],
  'x-end-user-ip': [
    '198.51.100.7',
    '2001:db8::1',
    '::ffff:192.0.2.1',
    'fe80::1%eth0',
    '1.2.3.4, 5.6.7.8',
    '1'
  ],
  origin: ['https://shop.example', 'https://evil.example', 'null', 'http://localhost'],
  accept: ['text/html', 'application/xml', '*/*;q=0'],
  'x-api-key': ['the key of the shop', 'an old key of the shop', 'nobody'],
  'x-admin-key': ['nobody'],
  'access-control-request-method': ['PUT'],
  'x-forwarded-for': ['not an address', '203.0.113.7']
}

// For requests with a type and no body, and of pages without a key: weights of the usual, none, and another value.
const RARE: Record<string, number[]> = { 'content-type': [0, 2, 1], origin: [0, 1, 1] }

/** The usual headers, and some that are odd or out of place. */
export function headersOf(usual: Record<string, string>): Arbitrary<Record<string, string>> {
  const given = Object.entries(SOME).map(([name, some]) => {
    const own = usual[name]
    const value = fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...some) }, oddHeader)
    const weights = own !== undefined ? [30, 2, 2] : (RARE[name] ?? [0, 8, 1])
    const choices = [fc.constant(own), fc.constant(undefined), value]
    return [
      name,
      fc.oneof(...choices.map((arbitrary, i) => ({ arbitrary, weight: weights[i] ?? 1 })))
    ] as const
  })
  return fc
    .record(Object.fromEntries(given))
    .map(all =>
      Object.fromEntries(
        Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
      )
    )
}
