import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import { gate } from './gate.js'

/**
 * A proxy to a server: each new connection goes to what `port()` returns then.
 * @returns its URL, and both ends of each connection
 */
export async function way(t: Test, port: () => number, meet = (_client: Socket, _server: Socket) => {}) {
  const ends: [client: Socket, server: Socket][] = []
  const proxy = createServer(client => {
    const server = connect(port(), '127.0.0.1')
    ends.push([client, server])
    meet(client, server)
    client.pipe(server).pipe(client)
    for (const socket of [client, server]) socket.on('error', () => {})
    t.teardown(() => [client, server].map(socket => socket.destroy()))
  }).listen(0, '127.0.0.1')
  t.teardown(() => proxy.close())
  await once(proxy, 'listening')
  const { port: at } = proxy.address() as AddressInfo
  return { url: `redis://127.0.0.1:${at}`, ends }
}

/**
 * A way to a server that holds back all answers on a connection once `what` was asked there.
 * @returns its URL, a promise of the question, and what lets the answers through
 */
export async function holding(t: Test, port: number, what: string) {
  const held: (() => void)[] = []
  const asked = gate()
  let open = false
  const { url } = await way(
    t,
    () => port,
    (client, server) =>
      client.on('data', data => {
        if (open || !data.includes(what)) return
        server.pause()
        held.push(() => server.resume())
        asked.open()
      })
  )
  const release = () => {
    open = true
    for (const each of held) each()
  }
  return { url, asked: asked.opened, release }
}
