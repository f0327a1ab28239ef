import { hash } from 'node:crypto'
import { textOf } from './lua.js'

export interface Script {
  text: string
  sha: string
  /** It makes decisions: so many in one call at most. */
  decides?: number
  /** Its last argument, of all decisions of a call. */
  told?: string
  /** Redis cannot know it yet: it is sent whole. */
  fresh?: boolean
}

/** The scripts of `lua/` that are called as they are. */
export const scripts = {
  refund: scriptOf(textOf('refund')),
  renew: scriptOf(textOf('renew')),
  peek: scriptOf(textOf('peek')),
  block: scriptOf(textOf('block')),
  unblock: scriptOf(textOf('unblock')),
  clear: scriptOf(textOf('clear'))
}

export function scriptOf(text: string): Script {
  return { text, sha: hash('sha1', text) }
}
