import { isIP } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { canonicalIp } from '../../../plugin/identity/ip.js'
import { compileIpList } from '../../../plugin/identity/ip-list.js'

const SPELLINGS: [network: string, spellings: string[]][] = [
  [
    '2001:db8:0:1::/64',
    [
      '2001:db8:0:1::',
      '2001:db8:0:1::1',
      '2001:DB8:0:1::1',
      '2001:0db8:0000:0001:0000:0000:0000:0001',
      '2001:db8:0:1:0:0:0:1',
      '2001:db8::1:0:0:0:1',
      '2001:db8:0:1:ffff:ffff:ffff:ffff',
      '2001:db8:0:1:a:b:c:d',
      '2001:db8:0:1:1:2:192.0.2.1',
      '2001:db8:0:1::192.0.2.1',
      '[2001:db8:0:1::1]',
      '2001:db8:0:1::1%eth0',
      '[2001:db8:0:1::1%25eth0]',
      '[2001:db8:0:1::1]:443',
      '[2001:0db8:0000:0001:0000:0000:0000:0001%enp0s31f6]:65535',
      `2001:db8:0:1::1%${'e'.repeat(64)}`
    ]
  ],
  [
    '192.0.2.1',
    [
      '192.0.2.1',
      '::ffff:192.0.2.1',
      '::FFFF:192.0.2.1',
      '::ffff:c000:201',
      '::FFFF:C000:0201',
      '0:0:0:0:0:ffff:192.0.2.1',
      '0:0:0:0:0:ffff:c000:201',
      '0000:0000:0000:0000:0000:ffff:c000:0201',
      '0::ffff:c000:201',
      '::0:ffff:192.0.2.1',
      '[::ffff:192.0.2.1]',
      '::ffff:192.0.2.1%eth0',
      '64:ff9b::192.0.2.1',
      '64:FF9B::c000:201',
      '[0064:ff9b:0:0:0:0:192.0.2.1]:80',
      '192.0.2.1:80',
      '192.0.2.1:65535',
      '[::ffff:192.0.2.1]:80',
      '[0000:0000:0000:0000:0000:ffff:192.0.2.1]:65535'
    ]
  ],
  ['::/64', ['::', '::1', '0:0:0:0:0:0:0:1', '::192.0.2.1', '::fffe:192.0.2.1']]
]

t.test('every spelling of an address in a network gives that network', async t => {
  for (const [network, spellings] of SPELLINGS) {
    for (const text of spellings) t.equal(canonicalIp(text, 64), network, text)
  }
})

t.test('an IPv6 address gives its network of any prefix length', async t => {
  const address = '2001:db8:1234:5678:9abc:def0:1234:5678'
  t.equal(canonicalIp(address, 128), `${address}/128`)
  t.equal(canonicalIp(address, 127), '2001:db8:1234:5678:9abc:def0:1234:5678/127')
  t.equal(canonicalIp(address, 60), '2001:db8:1234:5670::/60')
  t.equal(canonicalIp(address, 56), '2001:db8:1234:5600::/56')
  t.equal(canonicalIp(address, 48), '2001:db8:1234::/48')
  t.equal(canonicalIp(address, 1), '::/1')
  t.equal(canonicalIp('::ffff:192.0.2.1', 48), '192.0.2.1')
})

t.test('an IPv4 address gives its network of any prefix length', async t => {
  for (const text of ['192.0.2.1', '192.0.2.255', '::ffff:192.0.2.7', '64:ff9b::192.0.2.9', '192.0.2.1:80'])
    t.equal(canonicalIp(text, 64, 24), '192.0.2.0/24', text)
  t.equal(canonicalIp('192.0.3.1', 64, 24), '192.0.3.0/24')
  t.equal(canonicalIp('192.0.3.1', 64, 23), '192.0.2.0/23')
  t.equal(canonicalIp('203.0.113.129', 64, 25), '203.0.113.128/25')
  t.equal(canonicalIp('203.0.113.129', 64, 1), '128.0.0.0/1')
  t.equal(canonicalIp('203.0.113.129', 64, 32), '203.0.113.129')
  t.equal(canonicalIp('2001:db8:0:1::1', 64, 24), '2001:db8:0:1::/64')
  t.equal(canonicalIp('203.0.113', 64, 24), undefined)
})

const PAIRS: [a: string, b: string][] = [
  ['192.0.2.1', '192.0.2.2'],
  ['192.0.2.1', '192.0.2.10'],
  ['192.0.2.1', '192.0.3.1'],
  ['1.2.3.4', '4.3.2.1'],
  ['::ffff:192.0.2.1', '::ffff:192.0.2.2'],
  ['192.0.2.1', '::192.0.2.1'],
  ['192.0.2.1', '::ffff:0:192.0.2.1'],
  ['192.0.2.1', '64:ff9b:1::192.0.2.1'],
  ['192.0.2.1', '64:ff9b::1:c000:201'],
  ['64:ff9b::192.0.2.1', '64:ff9b::192.0.2.2'],
  ['192.0.2.1', '2001::ffff:192.0.2.1'],
  ['0.0.0.1', '::1'],
  ['2001:db8:0:1::1', '2001:db8:0:2::1'],
  ['2001:db8::1', '2001:db9::1'],
  ['2001:db8::1', 'fe80::1']
]

t.test('addresses in different networks give different networks', async t => {
  for (const [a, b] of PAIRS) {
    t.type(canonicalIp(a, 64), 'string', a)
    t.type(canonicalIp(b, 64), 'string', b)
    t.not(canonicalIp(a, 64), canonicalIp(b, 64), `${a} ≠ ${b}`)
  }
})

const NO_ADDRESS = [
  '',
  ' ',
  '1',
  '1.2.3',
  '1.2.3.4.5',
  '1.2.3.256',
  '01.2.3.4',
  '0x1.2.3.4',
  '3221225985',
  '1.2.3.4 ',
  ' 1.2.3.4',
  '1.2.3.4\n',
  '1.2.3.4:',
  '1.2.3.4:http',
  '1.2.3.4:123456',
  '1.2.3.4:80:80',
  ':80',
  '1.2.3.4/32',
  '[1.2.3.4]',
  '1.2.3.4%eth0',
  '１.2.3.4',
  '1.2.3.-4',
  '1,2,3,4',
  ':',
  ':::',
  '::1::',
  '1::2::3',
  '1:2:3:4:5:6:7',
  '1:2:3:4:5:6:7:8:9',
  '12345::',
  'g::',
  '::00001',
  '::1/64',
  '[::1',
  '::1]',
  '[[::1]]',
  '[::1]:',
  '[::1]80',
  '::1%',
  '::ffff:1.2.3',
  '::ffff:01.2.3.4',
  '::1\0',
  'localhost',
  'unknown',
  '__proto__',
  '\ud800',
  `2001:db8:0:1::1%${'e'.repeat(65)}`
]

t.test('a text that is no network address gives no network', async t => {
  for (const text of NO_ADDRESS) t.equal(canonicalIp(text, 64), undefined, JSON.stringify(text))
  for (const unit of ['1', ':', '[:', '1.', '%', '::1%a']) {
    t.equal(canonicalIp(unit.repeat(2 ** 20), 64), undefined)
  }
})

const group = fc.integer({ min: 0, max: 0xffff })
const groups = fc.array(fc.oneof(fc.constantFrom(0, 0xffff), group), { minLength: 8, maxLength: 8 })

t.test('random addresses have the spelling that the URL parser of Node gives them', async () => {
  fc.assert(
    fc.property(groups, fc.boolean(), fc.boolean(), (groups, pad, upper) => {
      const plain = groups.map(group => group.toString(16).padStart(pad ? 4 : 1, '0')).join(':')
      const text = upper ? plain.toUpperCase() : plain
      const short = new URL(`http://[${text}]`).hostname.slice(1, -1)
      if (short.startsWith('::ffff:') && groups.slice(0, 5).every(group => group === 0)) return
      for (const spelling of [text, short]) {
        const canonical = canonicalIp(spelling, 128)
        if (canonical !== `${short}/128`) throw new Error(`${canonical} ≠ ${short}`)
      }
    }),
    { numRuns: 2000 }
  )
})

t.test('no text throws, and the base address of a network gives that network', async () => {
  const text = fc.oneof(
    fc.ipV4(),
    fc.ipV6(),
    fc.ipV4().map(ip => `::ffff:${ip}`),
    fc.ipV4().map(ip => `64:ff9b::${ip}`),
    fc.string({ unit: 'binary' }),
    fc.array(fc.constantFrom(...'0123456789abcdefF:.:.[]%/'), { maxLength: 45 }).map(all => all.join(''))
  )
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 128 }), (text, prefix) => {
      const canonical = canonicalIp(text, prefix)
      if ((canonical === undefined) !== (isIP(text.replace(/^\[(.*:.*)\]$/, '$1')) === 0))
        throw new Error(text)
      return canonical === undefined || canonicalIp(canonical.replace(/\/.*/, ''), prefix) === canonical
    }),
    { numRuns: 5000 }
  )
})

const LISTS: [entries: string[], inside: string[], outside: string[]][] = [
  [[], [], ['192.0.2.1', '::1', '']],
  [
    ['192.0.2.1'],
    ['192.0.2.1', '::ffff:192.0.2.1', '::ffff:c000:201'],
    ['192.0.2.2', '::192.0.2.1', 'x', '']
  ],
  [['::ffff:192.0.2.1'], ['192.0.2.1', '::ffff:192.0.2.1'], ['192.0.2.2', '::1']],
  [
    ['10.0.0.0/8'],
    ['10.0.0.0', '10.255.255.255', '::ffff:10.1.2.3', '64:ff9b::10.1.2.3'],
    ['11.0.0.0', '9.255.255.255', '::a01:203']
  ],
  [['10.1.2.3/8'], ['10.0.0.0'], ['11.0.0.0']],
  [['::ffff:10.0.0.0/104'], ['10.1.2.3', '::ffff:a01:203'], ['11.0.0.0', '::1']],
  [['::ffff:0:0/96'], ['10.1.2.3', '::ffff:1.2.3.4'], ['::1', '2001:db8::1']],
  [['0.0.0.0/0'], ['10.1.2.3', '::ffff:1.2.3.4'], ['::1', '2001:db8::1', '1.2.3']],
  [['::/0'], ['::1', '2001:db8::1', '::1.2.3.4'], ['1.2.3.4', '::ffff:1.2.3.4', '']],
  [['192.0.2.128/25'], ['192.0.2.128', '192.0.2.255'], ['192.0.2.127', '192.0.3.128']],
  [
    ['192.0.2.1/32', '192.0.2.4/31'],
    ['192.0.2.1', '192.0.2.4', '192.0.2.5'],
    ['192.0.2.0', '192.0.2.3', '192.0.2.6']
  ],
  [
    ['2001:DB8::/33'],
    ['2001:db8:7fff::1', '[2001:DB8::1]', '2001:db8::1%eth0'],
    ['2001:db8:8000::', '2001:db9::']
  ],
  [['2001:db8::1'], ['2001:db8:0:0::1', '2001:0DB8::0001'], ['2001:db8::2', '2001:db8::']],
  [
    ['192.0.2.1', '2001:db8::/32', '198.51.100.0/24', '192.0.2.9', '2001:db9::/32'],
    ['192.0.2.1', '2001:db8::1', '198.51.100.1', '192.0.2.9', '2001:db9::1'],
    ['192.0.2.2', '2001:dba::1', '198.51.101.1']
  ],
  [
    ['2001:db8::1/128', '10.0.0.0/8'],
    ['2001:db8::1', '10.0.0.1'],
    ['2001:db8::3', '11.0.0.1']
  ]
]

t.test('a list matches the addresses in its entries and no others', async t => {
  for (const [entries, inside, outside] of LISTS) {
    const matches = compileIpList(entries)
    for (const address of inside) t.equal(matches(address), true, `${address} in [${entries}]`)
    for (const address of outside) t.equal(matches(address), false, `${address} not in [${entries}]`)
  }
})

t.test('a list takes only addresses and ranges, and its error names the wrong entry', async t => {
  const bad = [
    '',
    ' ',
    'localhost',
    '10.0.0.0/',
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0.0/08',
    '10.0.0.0/8.0',
    '10.0.0/8',
    '10.0.0.0/255.0.0.0',
    '10.0.0.0/8/8',
    ' 10.0.0.0/8',
    '10.0.0.0/8\n',
    '10.0.0.0-10.0.0.9',
    '10.*',
    '::/129',
    '::/1000',
    'fe80::1%eth0',
    '[::1]',
    '::ffff:10.0.0.0/8',
    '::ffff:0:0/95',
    '64:ff9b::10.0.0.1',
    '64:ff9b::/96',
    '64:ff9b::/32',
    '010.0.0.1'
  ]
  for (const entry of bad) {
    const refusal = { name: 'TypeError', message: JSON.stringify(entry) }
    t.throws(() => compileIpList(['192.0.2.1', entry]), refusal, entry)
  }
})

t.test('a range matches like the comparison of bits', async () => {
  const bits = (groups: readonly number[]) =>
    groups.map(group => group.toString(2).padStart(16, '0')).join('')
  const text = (groups: readonly number[]) => groups.map(group => group.toString(16)).join(':')
  const near = fc.tuple(groups, fc.integer({ min: 0, max: 128 }), fc.integer({ min: 0, max: 127 }))
  fc.assert(
    fc.property(near, ([base, prefix, flipped]) => {
      const other = base.map((group, i) => (i === flipped >> 4 ? group ^ (0x8000 >> (flipped & 15)) : group))
      fc.pre([base, other].every(groups => groups.slice(0, 5).some(group => group !== 0)))
      const inside = bits(base).slice(0, prefix) === bits(other).slice(0, prefix)
      return compileIpList([`${text(base)}/${prefix}`])(text(other)) === inside
    }),
    { numRuns: 3000 }
  )
})

t.test('a list matches like its ranges one by one', async () => {
  // Few bits, so that ranges contain others, share an end, or are adjacent.
  const ipv4 = fc.nat(0xf).map(bits => `10.0.0.${bits << 4}`)
  const ipv6 = fc.nat(0xff).map(bits => `2001:db8::${bits.toString(16)}`)
  const range = fc.oneof(
    fc.tuple(ipv4, fc.integer({ min: 24, max: 32 })),
    fc.tuple(fc.oneof(ipv6, fc.constant('::')), fc.integer({ min: 117, max: 128 })),
    fc.constantFrom(['::', 0], ['0.0.0.0', 0], ['::ffff:10.0.0.0', 122])
  )
  const entries = fc.array(
    range.map(([base, prefix]) => `${base}/${prefix}`),
    { maxLength: 12 }
  )
  fc.assert(
    fc.property(entries, fc.array(fc.oneof(ipv4, ipv6), { minLength: 1 }), (entries, addresses) => {
      const [list, ranges] = [compileIpList(entries), entries.map(entry => compileIpList([entry]))]
      return addresses.every(address => list(address) === ranges.some(range => range(address)))
    }),
    { numRuns: 3000 }
  )
})

t.test('an invalid prefix length throws a RangeError', async t => {
  for (const prefix of [0, 129, -5, 64.5, Number.NaN, '64' as never])
    t.throws(() => canonicalIp('2001:db8::1', prefix), { name: 'RangeError', message: /from 1 to 128/ })
  t.equal(canonicalIp('2001:db8::1', 128), '2001:db8::1/128')
  for (const prefix of [0, 33, -5, 24.5, Number.NaN, '24' as never])
    t.throws(() => canonicalIp('192.0.2.1', 64, prefix), {
      name: 'RangeError',
      message: /^ipv4Prefix .* from 1 to 32/
    })
})

t.test('a value that is no text gives no network', async t => {
  for (const value of [undefined, null, 13800138000, ['a']] as never[]) t.equal(canonicalIp(value), undefined)
})

t.test('an entry that is a whole file is cut off in the error', async t => {
  t.throws(() => compileIpList(['10.0.0.0/8\n'.repeat(1_000)]), {
    name: 'TypeError',
    message: /^"10\.0\.0\.0.{70}… is neither an IP address nor a range such as 192\.0\.2\.0\/24$/
  })
})

t.test('a text in place of a list throws a TypeError', async t => {
  t.throws(() => compileIpList('192.0.2.0/24' as never), {
    name: 'TypeError',
    message: "compileIpList takes a list, such as ['192.0.2.0/24']"
  })
})
