import { domainToASCII } from 'node:url'
import fc from 'fast-check'
import t from 'tap'
import { canonicalEmail } from '../../../plugin/identity/email.js'

const SPELLINGS: [address: string, spellings: string[]][] = [
  [
    'janedoe@gmail.com',
    [
      'janedoe@gmail.com',
      'JaneDoe@gmail.com',
      'JANEDOE@GMAIL.COM',
      'jane.doe@gmail.com',
      'j.a.n.e.d.o.e@gmail.com',
      'janedoe+news@gmail.com',
      'jane.doe+a+b@gmail.com',
      'jane.doe+@gmail.com',
      'janedoe@googlemail.com',
      'Jane.Doe+x@GoogleMail.com',
      'janedoe@gmail.com.',
      '  janedoe@gmail.com\r\n',
      '\u00a0janedoe@gmail.com\ufeff',
      '"janedoe"@gmail.com',
      '"jane.doe"@gmail.com',
      '"jane..doe."@gmail.com',
      '"jane\\d\\oe"@gmail.com',
      '"jane.doe+a b"@gmail.com',
      'ｊａｎｅｄｏｅ@gmail.com',
      '\u{1d409}anedoe@gmail.com',
      'jane．doe＋x@gmail.com',
      'janedoe@ｇｍａｉｌ．ｃｏｍ',
      'janedoe@gmail。com'
    ]
  ],
  [
    'jürgen.o@xn--mnchen-3ya.example',
    [
      'jürgen.o@münchen.example',
      'JÜRGEN.O@MÜNCHEN.EXAMPLE',
      'ju\u0308rgen.o@mu\u0308nchen.example',
      'jürgen.o+tag@XN--MNCHEN-3YA.example.',
      '"jürgen.o"@xn--mnchen-3ya.example'
    ]
  ],
  [
    'jané@gmail.com',
    ['jané@gmail.com', 'jane\u0301@gmail.com', 'JAN.É@gmail.com', '"jane.\u0301"@gmail.com']
  ],
  ['οδοσ@example.com', ['οδος@example.com', 'οδοσ@example.com', 'ΟΔΟΣ@example.com', 'ΟΔΟΣ+x@example.com']],
  ['ǰane@example.com', ['ǰane@example.com', 'j\u030cane@example.com', 'J\u030CANE@example.com']],
  ['jane@example.com', ['jane@example.com', 'jane@EXAMPLE.com', 'jane@example.com.', 'jane+x@Example.Com.']],
  ["!#$%&'*/=?^_`{|}~-@example.com", ["!#$%&'*/=?^_`{|}~-@example.com", "!#$%&'*/=?^_`{|}~-+x@example.com"]],
  ['"a ~"@example.com', ['"a ~"@example.com', '"A ~+b"@example.com']],
  ['"a b"@example.com', ['"a b"@example.com', '"A\\ b"@example.com', '"a b+c"@EXAMPLE.com']],
  ['"a\\"\\\\@b"@example.com', ['"a\\"\\\\@b"@example.com', '"A\\"\\\\\\@b"@example.com']],
  ['jane@xn--1ch.com', ['jane@\u2260.com', 'jane@=\u0338.com']],
  ['janedoe@icloud.com', ['JaneDoe@me.com', 'janedoe+x@mac.com', '"janedoe"@icloud.com']],
  [
    'janedoe@proton.me',
    [
      'jane.doe@proton.me',
      'jane-doe@protonmail.com',
      '_j.a_n-e_d.o-e_@pm.me',
      'Jane_Doe+x@ProtonMail.ch',
      '"-janedoe."@proton.me'
    ]
  ],
  [
    'jane-doe@yandex.ru',
    ['jane.doe@yandex.ru', 'Jane.Doe+x@ya.ru', 'jane-doe@yandex.kz', 'jane.doe@yandex.com']
  ]
]

t.test('every spelling of a mail address has one canonical form', async t => {
  t.ok((SPELLINGS[0]?.[1].length ?? 0) >= 15)
  for (const [address, spellings] of SPELLINGS) {
    for (const text of spellings) t.equal(canonicalEmail(text), address, JSON.stringify(text))
  }
})

const PAIRS: [a: string, b: string][] = [
  ['jane@example.com', 'june@example.com'],
  ['jane@example.com', 'jane@example.org'],
  ['jane@example.com', 'jane@mail.example.com'],
  ['jane.doe@example.com', 'janedoe@example.com'],
  ['jane-doe@example.com', 'jane@example.com'],
  ['jane_doe@example.com', 'janedoe@example.com'],
  ['jane=x@example.com', 'jane@example.com'],
  ['jane@gmail.com', 'jane@gmail.example.com'],
  ['j.ane@mail.gmail.com', 'jane@mail.gmail.com'],
  ['jane@gmail.com', 'jane@gmail.co'],
  ['jane.doe@icloud.com', 'janedoe@icloud.com'],
  ['jane.doe@yandex.ru', 'janedoe@yandex.ru'],
  ['jane_doe@yandex.ru', 'jane-doe@yandex.ru'],
  ['jane@proton.me', 'jane@me.com'],
  ['jürgen@example.com', 'jurgen@example.com'],
  ['jane@münchen.example', 'jane@munchen.example'],
  ['jane@straße.example', 'jane@strasse.example'],
  ['jаne@example.com', 'jane@example.com'],
  ['"jane "@example.com', 'jane@example.com'],
  ['"jane@example.com"@example.com', 'jane@example.com'],
  ['"a\\\\b"@example.com', 'ab@example.com']
]

t.test('different mail addresses have different canonical forms', async t => {
  for (const [a, b] of PAIRS) {
    t.type(canonicalEmail(a), 'string', a)
    t.type(canonicalEmail(b), 'string', b)
    t.not(canonicalEmail(a), canonicalEmail(b), `${a} ≠ ${b}`)
  }
})

const NO_ADDRESS: [what: string, text: string][] = [
  ['empty', ''],
  ['space', ' '],
  ['no at', 'jane.example.com'],
  ['at alone', '@'],
  ['no local part', '@example.com'],
  ['no domain', 'jane@'],
  ['a tag alone', '+x@example.com'],
  ['a quoted tag alone', '"+x"@example.com'],
  ['empty quotes', '""@example.com'],
  ['only dots at Gmail', '"..."@gmail.com'],
  ['only hyphens at Proton', '--@proton.me'],
  ['dot in front', '.jane@example.com'],
  ['dot behind', 'jane.@example.com'],
  ['two dots', 'jane..doe@example.com'],
  ['two dots in one character', 'jane\u2025doe@example.com'],
  ['two at', 'jane@doe@example.com'],
  ['at of full width inside', 'jane＠doe@example.com'],
  ['at of full width alone', 'jane＠example.com'],
  ['display name', 'Jane <jane@example.com>'],
  ['angle brackets', '<jane@example.com>'],
  ['mailto', 'mailto:jane@example.com'],
  ['comment', 'jane(work)@example.com'],
  ['comment in the domain', 'jane@(work)example.com'],
  ['list, comma', 'jane@example.com,june@example.com'],
  ['list, semicolon', 'jane@example.com;june@example.com'],
  ['list, space', 'jane@example.com june@example.com'],
  ['space inside', 'jane doe@example.com'],
  ['space before the at', 'jane @example.com'],
  ['header injection', 'jane@example.com\r\nBcc: june@example.com'],
  ['header injection, local part', 'jane\r\nBcc:june@example.com'],
  ['line feed in quotes', '"jane\n"@example.com'],
  ['tab in the domain', 'jane@exam\tple.com'],
  ['NUL', 'jane\0@example.com'],
  ['next line', 'jane\u0085@example.com'],
  ['line separator', '"jane\u2028"@example.com'],
  ['paragraph separator', '"jane\u2029"@example.com'],
  ['zero width in the local part', 'ja\u200bne@example.com'],
  ['zero width in the domain', 'jane@exam\u200bple.com'],
  ['soft hyphen', 'ja\u00adne@example.com'],
  ['bidi override', 'jane\u202e@example.com'],
  ['variation selector', 'jane\ufe0f@example.com'],
  ['lone surrogate', 'jane\ud800@example.com'],
  ['lone surrogate in the domain', 'jane@\udc00example.com'],
  ['open quote', '"jane@example.com'],
  ['quote inside', 'ja"ne@example.com'],
  ['quoted word and atom', '"jane".doe@example.com'],
  ['escaped end of quotes', '"jane\\"@example.com'],
  ['escape outside quotes', 'ja\\ne@example.com'],
  ['escape of what is not ASCII', '"jan\\é"@example.com'],
  ['address literal', 'jane@[192.0.2.1]'],
  ['address literal, IPv6', 'jane@[IPv6:2001:db8::1]'],
  ['bare IP', 'jane@192.0.2.1'],
  ['bare IP, hexadecimal', 'jane@0xc0.513'],
  ['bare IP, full width', 'jane@１９２.0.2.1'],
  ['domain without a dot', 'jane@localhost'],
  ['domain without a dot, final dot', 'jane@localhost.'],
  ['dot in front of the domain', 'jane@.example.com'],
  ['two dots in the domain', 'jane@example..com'],
  ['two final dots', 'jane@example.com..'],
  ['a port', 'jane@example.com:25'],
  ['a path', 'jane@example.com/x'],
  ['a path of full width', 'jane@example.com／x'],
  ['a query', 'jane@example.com?x'],
  ['a fragment', 'jane@example.com#x'],
  ['a backslash', 'jane@example.com\\x'],
  ['percent encoding', 'jane@exam%70le.com'],
  ['percent encoding of full width', 'jane@exam％70le.com'],
  ['underscore', 'jane@exam_ple.com'],
  ['hyphen in front', 'jane@-example.com'],
  ['hyphen behind', 'jane@example-.com'],
  ['broken punycode', 'jane@xn--a.com'],
  ['broken punycode below a domain', 'jane@mail.xn--a.com'],
  ['long local part', `${'a'.repeat(65)}@example.com`],
  ['long local part with a tag', `${'a'.repeat(60)}+tags@example.com`],
  ['long local part in octets', `${'ü'.repeat(33)}@example.com`],
  ['long local part in octets with a tag', `${'ü'.repeat(20)}+${'ü'.repeat(20)}@example.com`],
  ['long local part in octets after NFKC', `${'\ufdf2'.repeat(9)}@example.com`],
  ['quotes that make it long', `${'a'.repeat(62)}.+@example.com`],
  ['long label', `jane@${'a'.repeat(64)}.com`],
  ['long domain', `jane@${'a.'.repeat(130)}com`],
  ['long address', `${'a'.repeat(64)}@${'a'.repeat(63)}.${'a'.repeat(63)}.${'a'.repeat(58)}.com`]
]

t.test('a text that is not exactly one mail address has no canonical form', async t => {
  for (const [what, text] of NO_ADDRESS) t.equal(canonicalEmail(text), undefined, what)
})

t.test('a mail address may have 254 characters, and 320 with white space around it', async t => {
  const local = 'a'.repeat(64)
  const domain = `${'a'.repeat(63)}.${'a'.repeat(63)}.${'a'.repeat(57)}.com`
  t.equal(`${local}@${domain}`.length, 254)
  t.equal(canonicalEmail(`${local}@${domain}`), `${local}@${domain}`)
  t.equal(
    canonicalEmail(`${local}@${domain}`.padStart(320)),
    `${local}@${domain}`,
    'with white space up to 320 characters'
  )
  t.equal(canonicalEmail('jane@example.com'.padStart(321)), undefined, 'with too much white space')
})

t.test('texts of a megabyte have no canonical form', async t => {
  for (const unit of ['a', 'a.', '"', '\\a', '@', 'a@', ' ', '+', '\ufdfa', 'ü.']) {
    const long = unit.repeat(2 ** 20)
    for (const text of [long, `${long}@example.com`, `jane@${long}`, `"${long}"@example.com`]) {
      t.equal(canonicalEmail(text), undefined)
    }
  }
})

t.test('white space is kept within quotes, and removed around an address', async t => {
  for (const domain of ['gmail.com', 'example.com']) {
    t.equal(canonicalEmail(`"\u1680a"@${domain}`), `"\u1680a"@${domain}`)
    t.equal(canonicalEmail(`\u1680a@${domain}`), `a@${domain}`)
  }
})

t.test('no text throws, and the canonical form of a canonical form is itself', async () => {
  const unit = fc.oneof(
    fc.constantFrom(...'aAσςΣİiIß.+"\\ @-_éſK\u0301\u0323\u0307ﬁ．＋｡\u{1d400}'),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    fc.integer({ min: 0, max: 0xffff }).map(unit => String.fromCharCode(unit))
  )
  const some = (maxLength: number) => fc.array(unit, { maxLength }).map(units => units.join(''))
  const text = fc.oneof(
    some(12),
    fc
      .tuple(some(8), fc.constantFrom('gmail.com', 'proton.me', 'ya.ru', 'example.com'))
      .map(parts => parts.join('@')),
    some(8).map(local => `"${local}"@gmail.com`),
    some(8).map(domain => `jane@${domain}.com`)
  )
  fc.assert(
    fc.property(text, text => {
      const canonical = canonicalEmail(text)
      return canonical === undefined || canonicalEmail(canonical) === canonical
    }),
    { numRuns: 20_000 }
  )
})

t.test('case, a tag and white space never change the canonical form', async () => {
  const word = fc.stringMatching(/^[a-z][a-z0-9]{0,11}$/)
  fc.assert(
    fc.property(word, word, word, (local, tag, host) => {
      const spelling = ` ${local.toUpperCase()}+${tag}@${host.toUpperCase()}.EXAMPLE.`
      return canonicalEmail(spelling) === `${local}@${host}.example`
    })
  )
})

t.test('a domain with a joiner is the same in Unicode and in punycode', async t => {
  for (const domain of ['نامه\u200cای.com', 'ශ්\u200dරී.com']) {
    const ascii = `jane@${domainToASCII(domain)}`
    t.match(ascii, /@xn--/)
    t.equal(canonicalEmail(ascii), ascii)
    t.equal(canonicalEmail(`jane@${domain}`), ascii)
  }
  for (const address of ['jane@exam\u200cple.com', 'ja\u200cne@example.com'])
    t.equal(canonicalEmail(address), undefined)
})

t.test('a value that is no text has no canonical form', async t => {
  for (const value of [undefined, null, 13800138000, ['a']] as never[])
    t.equal(canonicalEmail(value), undefined)
})
