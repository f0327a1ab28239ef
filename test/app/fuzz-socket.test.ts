import t from 'tap'
import { answersTo, listen } from '../helper/listen.js'
import { checkProblem, type Got } from './fuzz/verdict.js'
import { places } from './helper.js'

const host = 'host: a\r\nconnection: close\r\n'
const post = `POST /v1/captcha HTTP/1.1\r\n${host}content-type: application/json\r\n`

type Case = [name: string, text: string, status: number]

/** What a client or a proxy may write, and the status of its answer. */
const cases: Case[] = [
  ['no host', 'GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n', 400],
  ['a wrong expectation', `${post}expect: a miracle\r\ncontent-length: 2\r\n\r\n{}`, 417],
  ['no HTTP', 'nonsense\r\n\r\n', 400],
  ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n', 400],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['another version', `GET /healthz HTTP/9.9\r\n${host}\r\n`, 400],
  ['no version', `GET /nowhere\r\n${host}\r\n`, 404],
  ['no address', `GET  HTTP/1.1\r\n${host}\r\n`, 400],
  ['an unknown method', `FOO /healthz HTTP/1.1\r\n${host}\r\n`, 400],
  ['a method in small letters', `get /healthz HTTP/1.1\r\n${host}\r\n`, 400],
  ['a method that nothing takes', `PURGE /healthz HTTP/1.1\r\n${host}\r\n`, 405],
  ['no colon', `GET /healthz HTTP/1.1\r\n${host}no colon here\r\n\r\n`, 400],
  ['NUL in a header', `GET /healthz HTTP/1.1\r\n${host}x: a\0b\r\n\r\n`, 400],
  ['a space before the colon', `GET /healthz HTTP/1.1\r\n${host}x : a\r\n\r\n`, 400],
  ['a folded header', `GET /healthz HTTP/1.1\r\n${host}x: a\r\n\tb\r\n\r\n`, 400],
  ['two lengths', `${post}content-length: 2\r\ncontent-length: 3\r\n\r\n{}`, 400],
  ['a length that is none', `${post}content-length: -1\r\n\r\n{}`, 400],
  ['length and chunks', `${post}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
  ['a broken chunk', `${post}transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n`, 400],
  ['a body that is too large', `${post}content-length: 20000\r\n\r\n${'x'.repeat(20_000)}`, 413],
  [
    'large chunks',
    `${post}transfer-encoding: chunked\r\n\r\n4e20\r\n${'x'.repeat(20_000)}\r\n0\r\n\r\n`,
    413
  ],
  ['a large head', `GET /healthz HTTP/1.1\r\n${host}x: ${'y'.repeat(30_000)}\r\n\r\n`, 431],
  ['a long address', `GET /${'a'.repeat(30_000)} HTTP/1.1\r\n${host}\r\n`, 431],
  [
    'an upgrade',
    `GET /nowhere HTTP/1.1\r\nhost: a\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n`,
    404
  ],
  ['a broken code', `GET /v1/captcha/%zz HTTP/1.1\r\n${host}\r\n`, 400],
  ['bytes past ASCII', `GET /v1/captcha/\xff\xfe HTTP/1.1\r\n${host}\r\n`, 400],
  ['a space in the address', `GET /v1/captcha/a b HTTP/1.1\r\n${host}\r\n`, 400],
  ['steps up', `GET /v1/captcha/../../../etc/passwd HTTP/1.1\r\n${host}\r\n`, 404],
  ['empty parts', `GET //v1//captcha HTTP/1.1\r\n${host}\r\n`, 404],
  ['a star', `OPTIONS * HTTP/1.1\r\n${host}\r\n`, 404],
  ['a whole URL', `GET http://evil.example/nowhere HTTP/1.1\r\n${host}\r\n`, 404],
  ['a whole URL of ours', `PUT http://a/v1/sms HTTP/1.1\r\n${host}\r\n`, 405]
]

t.test('whatever is written to the socket is answered by a problem', async t => {
  const app = await (await places.memory(t)).start()
  const port = await listen(app)

  const answerTo = async (text: string): Promise<Got> => {
    const [head = '', body = ''] = (await answersTo(port, text)).split('\r\n\r\n')
    const [line = '', ...fields] = head.split('\r\n')
    const headers = Object.fromEntries(fields.map(each => each.toLowerCase().split(': ')))
    return { status: Number(line.split(' ')[1]), headers, text: body }
  }
  for (const [name, text, expected] of cases) {
    const got = await answerTo(text)
    t.equal(got.status, expected, name)
    t.doesNotThrow(() => checkProblem(got), name)
  }
  t.equal((await app.inject('/healthz')).statusCode, 200)
})
