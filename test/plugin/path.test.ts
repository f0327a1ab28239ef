import t from 'tap'
import { compilePath } from '../../plugin/identity/path.js'

class Account {
  readonly id = 7
  get tenant() {
    return 'acme'
  }
}
const source = {
  body: { phone: 1, Phone: 3, params: 4, deep: { list: [{ x: 'y' }] }, __own: 2, text: 'abc', none: null },
  query: { id: 'q' },
  params: { id: 'p' },
  headers: { 'x-tenant': 't' },
  ip: '192.0.2.1',
  account: new Account(),
  nobody: null
}

t.test('a path reads members of the request, and of what a client sends only own members', async t => {
  for (const [path, value] of [
    ['body.phone', 1],
    ['body.Phone', 3],
    ['body.params', 4],
    ['body.deep.list.0.x', 'y'],
    ['body.__own', 2],
    ['query.id', 'q'],
    ['params.id', 'p'],
    ['headers.x-tenant', 't'],
    ['headers.X-Tenant', 't'],
    ['request.ip', '192.0.2.1'],
    ['request.account.id', 7],
    // What the app has put there may have getters.
    ['request.account.tenant', 'acme'],
    ['request.account.none.more', undefined],
    ['request.nobody.id', undefined],
    ['request.ip.length', undefined],
    ['body.none.more', undefined],
    ['body.phone.more', undefined],
    // Of what a client sends, only own members.
    ['body.text.length', undefined],
    ['body.toString', undefined],
    ['body.hasOwnProperty', undefined],
    ['body.deep.list.map', undefined],
    ['query.valueOf', undefined]
  ] as const) {
    t.equal(compilePath(path, 'at')(source), value, path)
  }
  t.equal(compilePath('body', 'at')(source), source.body)
  for (const body of [undefined, null, 'text', 5, []]) {
    t.equal(compilePath('body.phone', 'at')({ body }), undefined)
  }
})

t.test('a path never reads a prototype, whatever the parser made', async t => {
  const poisoned = JSON.parse('{"__proto__": {"phone": "1"}, "constructor": {"prototype": {"x": 1}}}')
  t.equal(
    compilePath('body.phone', 'at')({ body: Object.assign(Object.create({ phone: '1' }), {}) }),
    undefined
  )
  t.equal(compilePath('body.phone', 'at')({ body: poisoned }), undefined)
  for (const path of [
    'body.__proto__',
    'body.a.__proto__.b',
    'body.constructor',
    'request.constructor.prototype',
    'query.prototype'
  ]) {
    t.throws(() => compilePath(path, 'at'), { code: 'FST_SEND_LIMIT_OPTION' }, path)
  }
})

t.test('a path that cannot exist is an error', async t => {
  const none = [
    '',
    '.',
    'phone',
    'Body.phone',
    ' body.phone',
    'body.',
    'body..x',
    '.body',
    'headers',
    'query',
    'params',
    'request'
  ]
  for (const path of [
    ...none,
    'request.body.x',
    'request.headers.x',
    'request.query.x',
    'request.params.x'
  ]) {
    t.throws(
      () => compilePath(path, 'options.rules[0].key.value'),
      { code: 'FST_SEND_LIMIT_OPTION', message: /^options\.rules\[0\]\.key\.value: / },
      path
    )
  }
  t.throws(() => compilePath('request.body.x', 'at'), { message: /Write it as "body\.x"\./ })
})
