import type { Limit } from '../../plugin/index.js'

/** The rule of the policy that holds an account to its quota. */
export const QUOTA = 'account'

/** And that which holds all of them together. */
export const SERVICE = 'service'

/** A rule's limits in the order in which the plugin tells what is left of them: the calendar ones last. */
export function inOrder(limits: readonly Limit[] = []): Limit[] {
  return [...limits.filter(limit => !('per' in limit)), ...limits.filter(limit => 'per' in limit)]
}
