// Errors about one key. It holds a value that is not the plugin's: of another type, or too short. Or its hash slot is
// moving: while the slot is half moved, with keys on both nodes, a cluster's client is sent from one to the other; or
// the client does not follow the slot to its new node. With `enableAutoPipelining` it also refuses a pipeline that it
// gathered before it learned of the move.
const OF_KEY =
  /\bWRONGTYPE\b|data string too short|(?:Cluster redirections.*|^)\b(?:TRYAGAIN|MOVED|ASK)\b|same slots allocation group/

// Redis takes no writes: its memory is full, it is a replica, it cannot save, it has too few replicas, its user may not
// write, or its cluster is down but may be read. Within a script, the last two are worded differently.
const OF_WRITES =
  /\b(?:OOM|READONLY|MISCONF|NOREPLICAS|NOPERM)\b|can't run this command|ACL failure in script|cluster is down and readonly/

// Error replies that may pass: once the client has the right server, or the server is ready, has room or can save.
const TRANSIENT =
  /\b(?:READONLY|MASTERDOWN|NOREPLICAS|LOADING|BUSY|CLUSTERDOWN|MOVED|OOM|MISCONF)\b|cluster is down and readonly/

/** Whether an error says that Redis takes no writes, though it may still be read. */
export function isWriteError(error: unknown): boolean {
  return error instanceof Error && OF_WRITES.test(error.message)
}

/** Whether an error is about what stands under a key, and says nothing of Redis. */
export function isKeyError(error: unknown): boolean {
  // A RangeError: a `peek` found a value that is too short. A `MULTI` of somebody else says nothing about Redis.
  if (error instanceof RangeError || isQueued(error)) return true
  return error instanceof Error && OF_KEY.test(error.message)
}

/** Whether a call that failed with this error may succeed when it is made again. */
export function isTransient(error: unknown): boolean {
  return !isReply(error) || TRANSIENT.test(error.message)
}

/**
 * Whether the error is a reply of Redis: its message then begins with a code. The error's name tells less, since
 * ioredis 5 takes it from the class, whose name a bundler may shorten.
 */
export function isReply(error: unknown): error is Error {
  return error instanceof Error && /^[A-Z][A-Z0-9_]+ /.test(error.message)
}

/** Whether a client without an offline queue has turned a command away, as it was not connected. */
export function isUnsent(error: unknown): boolean {
  return error instanceof Error && /^(?:Stream isn't writeable|Cluster isn't ready)/.test(error.message)
}

const QUEUED = 'a MULTI is open on the client of redis; give it a client of its own'

/** Whether the command became part of somebody's `MULTI` on the same client: their `EXEC` will run it. */
export function isQueued(error: unknown): boolean {
  return error instanceof Error && error.message === QUEUED
}

/**
 * Returns the reply of Redis.
 * @throws Error when Redis has only queued the command behind somebody's `MULTI` on the same connection: the answer
 *   will be among those of their `EXEC`
 */
export function notQueued<T>(reply: T): T {
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
