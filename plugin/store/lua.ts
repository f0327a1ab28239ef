import { readFileSync } from 'node:fs'

/** The text of a script in `lua/`. A build replaces this module by the texts, so a bundled app needs no other file. */
export function textOf(name: string): string {
  return readFileSync(new URL(`../../lua/${name}.lua`, import.meta.url), 'utf8')
}
