import { isQueued } from './client.js'

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
