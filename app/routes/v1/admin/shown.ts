import { iso } from '../../../clock.js'
import type { Placed } from '../../../lists/lists.js'

/** A standing as answers show it. */
export function shown({ standing, reason, since, until }: Placed) {
  return {
    standing,
    ...(reason !== undefined && { reason }),
    since: iso(since),
    ...(until !== undefined && { until: iso(until) })
  }
}

/** Whom an answer is about. */
export function shownName(recipientHash: string, masked: string | undefined) {
  return { ...(masked !== undefined && { recipient: masked }), recipientHash }
}
