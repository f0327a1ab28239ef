import { readFileSync } from 'node:fs'

/** The text of a script of `lua/`. A build has the texts in place of this file: a bundle of an app takes no other along. */
export function textOf(name: string): string {
  return readFileSync(new URL(`../../lua/${name}.lua`, import.meta.url), 'utf8')
}
