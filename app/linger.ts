import type { Socket } from 'node:net'

/** How long a client may go on sending after the server has ended the connection, in milliseconds. */
const LONGEST = 2_000

/**
 * Ends a connection in stages (RFC 9112, section 9.6): what still comes is read and dropped until the client ends it,
 * too. If it were closed at once, it would be reset, and answers that the client has not yet read would be lost.
 */
export function linger(socket: Socket): void {
  if (socket.writableEnded || socket.destroyed) return
  socket.end()
  // What still comes is no request any more.
  socket.removeAllListeners('data')
  socket.on('data', () => {}).resume()
  // Node may have stopped reading, to hold back a body; the listeners that would start it again are gone.
  socket._read(0)
  const timer = setTimeout(() => socket.destroy(), LONGEST)
  socket.once('close', () => clearTimeout(timer))
}
