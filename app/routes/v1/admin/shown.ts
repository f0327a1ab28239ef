import { iso } from '../../../clock.js'
import type { ListEntry } from '../../../lists/lists.js'

/** An entry of the lists as answers show it. */
export function shown({ standing, reason, since, until }: ListEntry) {
  return { standing, reason, since: iso(since), until: until === undefined ? undefined : iso(until) }
}
