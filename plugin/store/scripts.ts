import { hash } from 'node:crypto'
import { textOf } from './lua.js'

export interface Script {
  text: string
  sha: string
  /** It makes decisions: so many in one call at most. */
  decides?: number
  /** It gives back what was taken: of so many in one call at most. */
  refunds?: number
  /** Its last argument, of all decisions of a call. */
  told?: string
  /** Redis cannot know it yet: it is sent whole. */
  fresh?: boolean
}

/** Redis is at nothing else while it gives back: of logs of 1,000, each takes 70 µs. */
const MOST_REFUNDS = 8

/** The scripts of `lua/` that are called as they are. */
export const scripts = {
  refund: { ...scriptOf(textOf('refund')), refunds: MOST_REFUNDS },
  renew: scriptOf(textOf('renew')),
  peek: scriptOf(textOf('peek')),
  block: scriptOf(textOf('block')),
  unblock: scriptOf(textOf('unblock')),
  clear: scriptOf(textOf('clear'))
}

export function scriptOf(text: string): Script {
  return { text, sha: hash('sha1', text) }
}
