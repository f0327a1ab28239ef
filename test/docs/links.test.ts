import { existsSync } from 'node:fs'
import t from 'tap'
import { pages, read, root } from './blocks.js'

/** The prose alone, since text in fences and code spans is no link and no heading. */
function prose(page: string): string {
  return read(page)
    .replace(/^```[\s\S]*?^```$/gm, '')
    .replace(/(?<!^#.*)`[^`\n]*`/gm, '')
}

/** The anchors that a page's headings get. */
function anchors(page: string): string[] {
  const headings = read(page)
    .replace(/^```[\s\S]*?^```$/gm, '')
    .matchAll(/^#+ (.+)$/gm)
  return [...headings].map(([, text = '']) =>
    text
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-')
  )
}

for (const page of pages) {
  t.test(`every link of ${page} leads to a file and a heading that exist`, async t => {
    for (const [, target = ''] of prose(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue
      const { pathname, hash } = new URL(target, new URL(page, 'file:///'))
      const path = pathname.slice(1)
      t.ok(existsSync(new URL(path, root)), `${target} exists`)
      if (hash !== '') t.ok(anchors(path).includes(hash.slice(1)), `${target} has its heading`)
    }
  })
}

t.test('the README links to every page', async t => {
  const readme = read('README.md')
  for (const page of pages) if (page !== 'README.md') t.match(readme, `](${page})`)
})
