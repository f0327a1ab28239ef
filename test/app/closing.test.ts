import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import t from 'tap'
import { build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'

const HELD = 'GET /held HTTP/1.1\r\nhost: a\r\n\r\n'
const HEALTHZ = 'GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n'
const HALF = 'POST /v1/captcha HTTP/1.1\r\nhost: a\r\n'

t.test('whoever asks for nothing does not hold it up, whoever waits is answered', async t => {
  const app = await build(readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent' }))
  t.teardown(() => app.server.closeAllConnections())
  let release = () => {}
  const held = new Promise<void>(resolve => (release = resolve))
  let arrived = 0
  app.get('/held', async () => {
    arrived++
    await held
    return 'done'
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const open = async (text: string) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    let got = ''
    socket.on('data', chunk => (got += chunk))
    const closed = once(socket, 'close')
    await once(socket, 'connect')
    socket.write(text)
    return { socket, closed, got: () => got }
  }
  const answered = async (text: string) => {
    const opened = await open(text)
    await once(opened.socket, 'data')
    return opened
  }

  const waiting = await open(HELD)
  // Its first answer has left while the second is under way.
  const pipelined = await answered(HEALTHZ + HELD)
  const idle = [await open(''), await open(HALF), await answered(HEALTHZ), await answered(HEALTHZ + HALF)]
  // Answered after them: the server has read what they wrote.
  while (arrived < 2) await answered(HEALTHZ)
  await answered(HEALTHZ)

  const closed = app.close()
  for (const one of idle) await one.closed
  release()
  await closed
  for (const one of [waiting, pipelined]) {
    await one.closed
    t.match(one.got(), /done$/)
  }
})
