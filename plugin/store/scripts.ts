import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

export interface Script {
  text: string
  sha: string
}

/** A script of `lua/`, as it is. */
export function loadScript(name: string): Script {
  const text = readFileSync(new URL(`../../lua/${name}.lua`, import.meta.url), 'utf8')
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
