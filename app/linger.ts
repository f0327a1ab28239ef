import type { Socket } from 'node:net'

/** How long a client may go on sending behind the end of its connection, in milliseconds. */
const LONGEST = 2_000

/**
 * Ends a connection in stages (RFC 9112, section 9.6): what still comes is read and dropped until the client has ended it,
 * too. Closed at once it would be reset, and answers that the client has not read would be lost.
 */
export function linger(socket: Socket): void {
  if (socket.writableEnded || socket.destroyed) return
  socket.end()
  // Nothing of it is a request any more.
  socket.removeAllListeners('data')
  socket.on('data', () => {}).resume()
  // Node reads no more of a body that it has to hold back, and what would begin anew went with the listeners.
  socket._read(0)
  const timer = setTimeout(() => socket.destroy(), LONGEST)
  socket.once('close', () => clearTimeout(timer))
}
