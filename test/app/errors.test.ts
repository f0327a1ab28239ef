import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { mock } from 'node:test'
import t from 'tap'
import { build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'
import { logStream } from '../helper/log-stream.js'

const POST = 'POST /v1/captcha HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n'

t.test(
  'a body that comes too slowly is 408 and no error here, a handler that is too slow is 503',
  async t => {
    const { lines, stream } = logStream()
    const config = readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'warn' })
    const app = await build(config, { logStream: stream })
    t.teardown(() => app.close())
    app.get('/slow', () => new Promise(() => {}))
    await app.listen({ host: '127.0.0.1', port: 0 })
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())

    const answerTo = async (text: string) => {
      const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
      t.teardown(() => socket.destroy())
      const arrived = once(app.server, 'request')
      socket.write(text)
      await arrived
      mock.timers.tick(config.SEND_TIMEOUT + 5_000)
      return { socket, text: String((await once(socket, 'data'))[0]) }
    }
    const slow = await answerTo(`${POST}content-length: 100\r\n\r\n{`)
    t.match(slow.text, /^HTTP\/1\.1 408 [\s\S]*\r\nconnection: close\r\n[\s\S]*"code":"REQUEST_TIMEOUT"/)
    await once(slow.socket, 'close')
    t.same(lines, [])
    const { text } = await answerTo('GET /slow HTTP/1.1\r\nhost: a\r\n\r\n')
    t.match(text, /^HTTP\/1\.1 503 [\s\S]*"code":"FST_ERR_HANDLER_TIMEOUT"/)
    t.equal(lines.length, 1)
  }
)
