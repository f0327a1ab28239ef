import { hash } from 'node:crypto'
import { textOf } from './lua.js'

export interface Script {
  text: string
  sha: string
  /** How many decisions one call makes at most; undefined for a script that makes none. */
  maxDecisions?: number
  /** For how many decisions one call gives slots back at most; undefined for a script that gives none back. */
  maxRefunds?: number
  /** The last argument of each call, which holds for all its decisions: their specs. */
  sharedArgument?: string
  /** Whether this process has not sent the script yet: the first call sends it whole. */
  unsent?: boolean
}

/** Redis does nothing else while it gives back: with logs of 1,000 stamps, each refund takes 70 µs. */
const MOST_REFUNDS = 8

/** The scripts of `lua/` that are sent as they stand there. */
export const scripts = {
  refund: { ...scriptOf(textOf('refund')), maxRefunds: MOST_REFUNDS },
  renew: scriptOf(textOf('renew')),
  peek: scriptOf(textOf('peek')),
  block: scriptOf(textOf('block')),
  unblock: scriptOf(textOf('unblock')),
  clear: scriptOf(textOf('clear'))
} satisfies Record<string, Script>

export function scriptOf(text: string): Script {
  return { text, sha: hash('sha1', text) }
}
