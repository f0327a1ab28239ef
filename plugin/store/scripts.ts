import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

export interface Script {
  text: string
  sha: string
  /** Redis cannot know it yet: it is sent whole. */
  fresh?: boolean
}

/** A script of `lua/`, as it is. */
export function loadScript(name: string): Script {
  return scriptOf(textOf(name))
}

export function scriptOf(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

/** The text of a script of `lua/`. */
export function textOf(name: string): string {
  return readFileSync(new URL(`../../lua/${name}.lua`, import.meta.url), 'utf8')
}
