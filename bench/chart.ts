// Draws the figures that are kept into docs/benchmarks.svg, and their table into docs/benchmarks.md.
// npm run bench -- chart
import { readFileSync, writeFileSync } from 'node:fs'
import { type Kept, kept } from './lib/kept.js'

type Row = Kept[string]['ratios'][number]

const BY = ' ÷ '
const peers = /, 4, |, 4 ÷|4 stores|5 scripts/
const PLACE = { label: 570, width: 300, row: 20, head: 34 }

function chartOf(figures: Kept): string {
  let y = 10
  const parts: string[] = []
  const text = (x: number, at: number, what: string, how = '') =>
    parts.push(`<text x="${x}" y="${at}"${how && ` ${how}`}>${escaped(what)}</text>`)
  for (const [bench, { date, ratios }] of Object.entries(figures)) {
    const rows = shown(ratios)
    if (rows.length === 0) continue
    text(10, y + 16, `${bench}, ${date.slice(0, 10)}`, 'font-weight="bold"')
    y += PLACE.head - 8
    const most = Math.max(...rows.map(row => Math.max(row.max, limitOf(row) ?? 0)))
    const x = (value: number) => PLACE.label + (value / most) * PLACE.width
    for (const row of rows) {
      const middle = y + PLACE.row / 2
      const ours = /\bours\b|plugin/.test(row.name)
      text(PLACE.label - 8, middle + 4, row.name, 'text-anchor="end"')
      parts.push(
        `<rect x="${PLACE.label}" y="${y + 3}" width="${(x(row.median) - PLACE.label).toFixed(1)}" height="14" fill="${ours ? '#2f6fb3' : '#9aa4ad'}"/>`,
        `<path d="M${x(row.min).toFixed(1)} ${middle}H${x(row.max).toFixed(1)}" stroke="#222"/>`
      )
      const limit = limitOf(row)
      if (limit !== undefined)
        parts.push(`<path d="M${x(limit).toFixed(1)} ${y}v${PLACE.row}" stroke="#c0392b" stroke-width="2"/>`)
      text(
        PLACE.label + PLACE.width + 12,
        middle + 4,
        `${row.median}${row.target ? `, target ${row.target}` : ''}`
      )
      y += PLACE.row
    }
    y += 14
  }
  const size = `width="1020" height="${y}" viewBox="0 0 1020 ${y}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="11" fill="#222">
<title>Ours beside floors and other limiters: the ratios of the tables in benchmarks.md</title>
<rect width="100%" height="100%" fill="#fff"/>
${parts.join('\n')}
</svg>
`
}

/** The ratios that have a target, and those of other limiters over the same subject. */
function shown(ratios: readonly Row[]): Row[] {
  const of = ratios.filter(({ name }) => name.includes(BY))
  const beside = new Set(of.filter(({ target }) => target !== undefined).map(besideWhat))
  return of.filter(row => row.target !== undefined || (peers.test(row.name) && beside.has(besideWhat(row))))
}

function besideWhat({ name }: Row): string | undefined {
  return name.split(BY)[1]
}

function limitOf({ target }: Row): number | undefined {
  return target === undefined ? undefined : Number(target.slice(2))
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}

/** A table for each bench: every ratio with its target, and whether it is reached. */
function tablesOf(figures: Kept): string {
  return Object.entries(figures)
    .map(([bench, { date, machine, node, rounds, ratios }]) => {
      const rows = ratios.map(row => {
        const { name, median, min, max, target } = row
        return `| ${name} | ${median} | ${min}–${max} | ${target ?? ''} | ${target ? (reached(row) ? 'yes' : 'no') : ''} |`
      })
      const about = `${date.slice(0, 10)}, ${machine}, Node ${node}, ${rounds} rounds.`
      return `### ${bench}\n\n${about}\n\n| What | Median | Min–max | Target | Reached |\n| --- | --- | --- | --- | --- |\n${rows.join('\n')}\n`
    })
    .join('\n')
}

function reached({ median, target = '' }: Row): boolean {
  const limit = Number(target.slice(2))
  return target.startsWith('≥') ? median >= limit : median <= limit
}

// In the root of the repository, where every bench runs.
const page = 'docs/benchmarks.md'
const MARKS = ['<!-- figures -->', '<!-- end of figures -->'] as const
const figures = kept()
if (Object.keys(figures).length === 0)
  throw new Error('No figures are kept: npm run bench -- check --keep file.json')
const [before, rest = ''] = readFileSync(page, 'utf8').split(MARKS[0])
const [, after = ''] = rest.split(MARKS[1])
writeFileSync(
  page,
  `${before}${MARKS[0]}\n\n![The ratios below as bars](benchmarks.svg)\n\n${tablesOf(figures)}\n${MARKS[1]}${after}`
)
writeFileSync('docs/benchmarks.svg', chartOf(figures))
