import { iso } from '../../../clock.js'
import type { Placed } from '../../../lists/lists.js'

/** A standing as answers show it: without what is undefined. */
export function shown({ standing, reason, since, until }: Placed) {
  return { standing, reason, since: iso(since), until: until === undefined ? undefined : iso(until) }
}
