import type { Binary, ClusterNode, NodeEvents, RedisClient } from './client.js'

/** Those whose errors are handled: apps may share one, and come and go. */
const handled = new WeakSet<RedisClient>()

/** Handles errors that ioredis leaves unhandled, so that they would end the process. */
export function handleErrors(client: RedisClient): void {
  if (handled.has(client)) return
  handled.add(client)
  if (!client.isCluster) return handleStreams(client as RedisClient & Binary)
  const handleNode = (node: ClusterNode) => {
    handleAsking(node)
    handleStreams(node)
  }
  for (const node of client.nodes?.('all') ?? []) handleNode(node)
  ;(client as RedisClient & NodeEvents).on('+node', handleNode)
}

/** An `ASKING` whose answer is lost with its connection. */
function handleAsking(node: ClusterNode): void {
  const { asking } = node
  node.asking = (...callback) => {
    const asked = asking.apply(node, callback)
    asked.catch(() => {})
    return asked
  }
}

/**
 * Of a connection's errors all but the first: over TLS one that has brought a broken record stands on, and the next write
 * is an error, too. Nothing comes over it any more, so it ends.
 */
function handleStreams(client: Pick<Binary, 'stream' | 'on'>): void {
  const handleStream = () => {
    const { stream } = client
    stream?.on('error', () => stream.destroy())
  }
  handleStream()
  client.on('connect', handleStream)
}
