import { readdirSync, readFileSync } from 'node:fs'

/** A fenced block of a page. Its first word is the language, the second says what a test does with it. */
export interface Block {
  /** Path of the page from the root, and the line on which the block begins. */
  at: string
  page: string
  language: string
  /** `run`: it is run, and prints the `output` block after it; `rules`: they are registered; `curl`: the app is asked. */
  use: string
  /** The other words on the opening line. */
  needs: string[]
  text: string
}

export const root = new URL('../../', import.meta.url)

export const pages: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  'lua/README.md',
  ...readdirSync(new URL('docs', root))
    .filter(name => name.endsWith('.md'))
    .map(name => `docs/${name}`)
]

export function read(page: string): string {
  return readFileSync(new URL(page, root), 'utf8')
}

export function blocksOf(page: string): Block[] {
  const blocks: Block[] = []
  let open: Block | undefined
  for (const [i, line] of read(page).split('\n').entries()) {
    if (open !== undefined) {
      if (line === '```') open = undefined
      else open.text += `${line}\n`
    } else if (line.startsWith('```')) {
      const [language = '', use = '', ...needs] = line.slice(3).split(' ')
      open = { at: `${page}:${i + 1}`, page, language, use, needs, text: '' }
      blocks.push(open)
    }
  }
  if (open !== undefined) throw new Error(`${open.at} is not closed`)
  return blocks
}
