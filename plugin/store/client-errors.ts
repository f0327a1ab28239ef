import type { ClusterNode, IoredisExtras, RedisClient } from './client.js'

/** Clients whose errors are handled already: apps may share a client, and come and go. */
const handled = new WeakSet<RedisClient>()

/** Handles errors that ioredis leaves unhandled: they would end the process. */
export function handleErrors(client: RedisClient): void {
  if (handled.has(client)) return
  handled.add(client)
  if (!client.isCluster) return handleStreams(client as RedisClient & IoredisExtras)
  const handleNode = (node: ClusterNode) => {
    handleAsking(node)
    handleStreams(node)
  }
  for (const node of client.nodes?.('all') ?? []) handleNode(node)
  ;(client as RedisClient & IoredisExtras).on('+node', handleNode)
}

/** Handles the rejection of an `ASKING` whose answer is lost with its connection. */
function handleAsking(node: ClusterNode): void {
  const { asking } = node
  node.asking = (...callback) => {
    const asked = asking.apply(node, callback)
    asked.catch(() => {})
    return asked
  }
}

/**
 * Handles all errors of a socket but the first, which ioredis handles. A TLS socket that has received a broken record
 * stays open, and its next write fails, too. Nothing arrives there any more, so the socket is destroyed.
 */
function handleStreams(client: Pick<IoredisExtras, 'stream' | 'on'>): void {
  const handleStream = () => {
    const { stream } = client
    stream?.on('error', () => stream.destroy())
  }
  handleStream()
  client.on('connect', handleStream)
}
