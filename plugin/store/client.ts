export type Argument = string | number

/** What is asked of a Redis client; ioredis has it, and `evalshaBuffer` and `evalBuffer`, which its types lack. */
export interface RedisClient {
  set(key: string, value: string, ex: 'EX', seconds: number, nx?: 'NX'): Promise<unknown>
  get(key: string): Promise<string | null>
  info(section: string): Promise<string>
  script(load: 'LOAD', text: string): Promise<unknown>
  isCluster?: boolean
  options?: object
  /** Of a cluster: its nodes, as far as they are known. */
  nodes?(role: 'all' | 'master'): ClusterNode[]
  /** Of a cluster: the names of the nodes that have each hash slot, its master first. */
  slots?: string[][]
  /** Of a cluster: finds out anew which node has what. */
  refreshSlotsCache?(): void
}

/** Of a cluster: a node, and the client's connection to it. */
export interface ClusterNode extends Pick<RedisClient, 'info' | 'script'>, Pick<Binary, 'stream' | 'on'> {
  status: string
  options: { host?: string | undefined; port?: number | undefined }
  /** Lets a command pass to a slot that is on its way there. */
  asking(...callback: never[]): Promise<unknown>
}

type Eval = (script: string, keys: number, ...args: Argument[]) => Promise<unknown>

/**
 * What every ioredis has and its types lack: calls that answer in bytes. `callBuffer`, which they have, loses the name of
 * its command when the client pipelines by itself.
 */
export interface Binary {
  evalshaBuffer: Eval
  evalBuffer: Eval
  /** Of its connection (`stream.Duplex`); a cluster has none, nor has one that was never connected. */
  stream?: {
    cork(): void
    uncork(): void
    destroy(): void
    on(event: 'error', listener: () => void): unknown
  }
  /** `ready` once it is connected; before, while it tries to be, `connecting` or `connect`. */
  status?: string
  on(event: 'connect' | 'ready' | 'close', listener: () => void): unknown
  off(event: 'ready' | 'close', listener: () => void): unknown
}

/** What a cluster's client tells of its nodes. */
export interface NodeEvents {
  on(event: '+node', listener: (node: ClusterNode) => void): unknown
}

export function isClient(value: unknown): value is RedisClient & Binary {
  const { evalshaBuffer, evalBuffer, on } = (value ?? {}) as Partial<Binary>
  // A pipeline has the commands and is no client.
  return [evalshaBuffer, evalBuffer, on].every(each => typeof each === 'function')
}

/**
 * Whether Redis itself has answered with this error, which then begins with a code. Its class tells that only where no
 * bundler has shortened the names of classes, by which ioredis 5 names its errors.
 */
export function isReply(error: unknown): error is Error {
  return error instanceof Error && /^[A-Z][A-Z0-9_]+ /.test(error.message)
}

/** Whether a client without a queue for the time between two connections has turned a command away. */
export function isUnsent(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Stream isn't writeable")
}

const QUEUED = 'a MULTI is open on the client of redis; give it a client of its own'

/** Whether somebody's `MULTI` has taken in what was asked: it will be done by their `EXEC`. */
export function isQueued(error: unknown): boolean {
  return error instanceof Error && error.message === QUEUED
}

/**
 * What Redis has answered. @throws where it has only queued what was asked, behind somebody's `MULTI` on the same
 * connection: the answer will be among those of their `EXEC`
 */
export function answered<T>(reply: T): T {
  const { length } = (reply ?? {}) as { length?: number }
  if (length === 'QUEUED'.length && String(reply) === 'QUEUED') throw new Error(QUEUED)
  return reply
}

/**
 * Hides from logs the command that a client's error carries: what failed may have been the login, with its password.
 * @returns the same error
 */
export function withoutCommand(error: unknown): unknown {
  if (error instanceof Error && 'command' in error)
    Object.defineProperty(error, 'command', { enumerable: false })
  return error
}
