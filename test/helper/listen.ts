import { once } from 'node:events'
import { type ClientRequest, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'

interface Listening {
  listen(options: { host: string; port: number }): Promise<string>
  server: { address(): unknown }
}

/** Has an app listen on 127.0.0.1. @returns its port */
export async function listen(app: Listening): Promise<number> {
  await app.listen({ host: '127.0.0.1', port: 0 })
  return (app.server.address() as AddressInfo).port
}

/** A GET over a connection of its own, not ended yet. That it is destroyed is no error. */
export function requestTo(port: number, path: string): ClientRequest {
  return request({ host: '127.0.0.1', port, path, agent: false }).on('error', () => {})
}

/**
 * Writes a text to a new connection.
 * @returns all that is answered until the other end closes it
 * @throws when the other end is silent for 20 seconds
 */
export async function answersTo(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  let all = ''
  let silent = false
  socket.setTimeout(20_000, () => {
    silent = true
    socket.destroy()
  })
  socket.setEncoding('utf8').on('data', chunk => (all += chunk))
  socket.write(text, 'latin1')
  await once(socket, 'close')
  if (silent) throw new Error(`not closed after ${JSON.stringify(all)}`)
  return all
}
