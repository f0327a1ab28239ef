import type { Binary, ClusterNode, NodeEvents, RedisClient } from './client.js'

/** Clients that are heard: apps may share one, and come and go. */
const heard = new WeakSet<RedisClient>()

/** Hears what ioredis leaves unheard, and what would end the process. */
export function hear(client: RedisClient): void {
  if (heard.has(client)) return
  heard.add(client)
  if (!client.isCluster) return hearErrors(client as RedisClient & Binary)
  const hearNode = (node: ClusterNode) => {
    hearAsking(node)
    hearErrors(node)
  }
  for (const node of client.nodes?.('all') ?? []) hearNode(node)
  ;(client as RedisClient & NodeEvents).on('+node', hearNode)
}

/** An `ASKING` whose answer is lost with its connection. */
function hearAsking(node: ClusterNode): void {
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
function hearErrors(client: Pick<Binary, 'stream' | 'on'>): void {
  const hearStream = () => {
    const { stream } = client
    stream?.on('error', () => stream.destroy())
  }
  hearStream()
  client.on('connect', hearStream)
}
