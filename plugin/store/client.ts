export type Argument = string | number

/** What is asked of a Redis client; ioredis has it. */
export interface RedisClient {
  evalsha(sha: string, keys: number, ...args: Argument[]): Promise<unknown>
  eval(script: string, keys: number, ...args: Argument[]): Promise<unknown>
  set(key: string, value: string, ex: 'EX', seconds: number, nx?: 'NX'): Promise<unknown>
  get(key: string): Promise<string | null>
  info(section: string): Promise<string>
  script(load: 'LOAD', text: string): Promise<unknown>
  isCluster?: boolean
  options?: object
  /** Of a cluster: its nodes, as far as they are known. */
  nodes?(role: 'master'): Pick<RedisClient, 'info' | 'script'>[]
  /** Of a cluster: the names of the nodes that have each hash slot, its master first. */
  slots?: string[][]
  /** Of a cluster: finds out anew which node has what. */
  refreshSlotsCache?(): void
}

/**
 * What every ioredis has and its types lack: calls that answer in bytes. `callBuffer`, which they have, loses the name of
 * its command when the client pipelines by itself.
 */
export interface Binary {
  evalshaBuffer: RedisClient['evalsha']
  evalBuffer: RedisClient['eval']
  /** Of its connection (`stream.Writable`); a cluster has none. */
  stream?: { cork(): void; uncork(): void }
  /** `ready` once it is connected; before, while it tries to be, `connecting` or `connect`. */
  status?: string
  once(event: 'ready' | 'close', listener: () => void): unknown
}
