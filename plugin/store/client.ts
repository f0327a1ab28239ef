export type Argument = string | number

/** What the plugin needs of a Redis client. ioredis has it all, and also `IoredisExtras`, which its types lack. */
export interface RedisClient {
  set(key: string, value: string, ex: 'EX', seconds: number, nx?: 'NX'): Promise<unknown>
  get(key: string): Promise<string | null>
  info(section: string): Promise<string>
  script(load: 'LOAD', text: string): Promise<unknown>
  isCluster?: boolean
  options?: object
  /** Only of a cluster: its nodes, as far as the client knows them. */
  nodes?(role: 'all' | 'master'): ClusterNode[]
  /** Only of a cluster: for each hash slot the addresses of the nodes that have it, the master first. */
  slots?: string[][]
  /** Only of a cluster: looks up again which node has which hash slots. */
  refreshSlotsCache?(): void
}

/** A node of a cluster, and the client's connection to it. */
export interface ClusterNode
  extends Pick<RedisClient, 'info' | 'script'>,
    Pick<IoredisExtras, 'stream' | 'on'> {
  status: string
  options: { host?: string | undefined; port?: number | undefined }
  /** Lets the next command through to a hash slot that is being moved to this node. */
  asking(...callback: never[]): Promise<unknown>
}

type Eval = (script: string, keys: number, ...args: Argument[]) => Promise<unknown>

/**
 * What every client of ioredis has, though its types lack it: calls that answer in bytes. The types have `callBuffer`,
 * but that loses the name of its command with `enableAutoPipelining`.
 */
export interface IoredisExtras {
  evalshaBuffer: Eval
  evalBuffer: Eval
  /** The socket (`stream.Duplex`); a cluster's client has none, nor has one that was never connected. */
  stream?: {
    cork(): void
    uncork(): void
    destroy(): void
    on(event: 'error', listener: () => void): unknown
  }
  /** `ready` once the client is connected; `connecting` or `connect` while it connects. */
  status?: string
  on(event: 'connect' | 'ready' | 'close', listener: () => void): unknown
  /** Only of a cluster: tells of each node that joins. */
  on(event: '+node', listener: (node: ClusterNode) => void): unknown
  off(event: 'ready' | 'close', listener: () => void): unknown
}

export function isClient(value: unknown): value is RedisClient & IoredisExtras {
  const { evalshaBuffer, evalBuffer, on } = (value ?? {}) as Partial<IoredisExtras>
  // A pipeline has the commands and is no client.
  return [evalshaBuffer, evalBuffer, on].every(each => typeof each === 'function')
}

/**
 * Whether keys of different identities may be on different nodes.
 * @param behindProxy whether a proxy stands before a cluster, so that its client is one of a single server
 */
export function isSharded({ isCluster }: RedisClient, behindProxy = false): boolean {
  return isCluster === true || behindProxy
}
