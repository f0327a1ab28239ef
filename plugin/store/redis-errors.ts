import { isQueued } from './client.js'

// What is none of ours, of another type or another length; a slot that is half moved, the keys on both sides, so that a
// cluster's client is sent from one to the other, or one to whose place the client does not follow: of one that pipelines
// by itself, not even where it has learned of the move before it sends what it has gathered.
const OF_KEY =
  /\bWRONGTYPE\b|data string too short|(?:Cluster redirections.*|^)\b(?:TRYAGAIN|MOVED|ASK)\b|same slots allocation group/

// Its memory is full, it is a replica, it cannot save, or has too few replicas; its user may not, or its cluster is down
// and may be read, in words of their own within a script.
const OF_WRITES =
  /\b(?:OOM|READONLY|MISCONF|NOREPLICAS|NOPERM)\b|can't run this command|ACL failure in script|cluster is down and readonly/

/** Whether an error says that Redis takes no writes, though it may still be read. */
export function isOfWrites(error: unknown): boolean {
  return error instanceof Error && OF_WRITES.test(error.message)
}

/** Whether an error is about what stands under a key, and says nothing of Redis. */
export function isOfKey(error: unknown): boolean {
  // A RangeError where it was this process that read too short a value, to look; nor does somebody's `MULTI` tell of Redis.
  if (error instanceof RangeError || isQueued(error)) return true
  return error instanceof Error && OF_KEY.test(error.message)
}
