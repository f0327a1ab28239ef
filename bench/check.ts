// Which ratio has moved against the figures that are kept, or is gone? Ends with 1 when one has.
// npm run bench -- check file.json …           compares what `--json file` has written
// npm run bench -- check --keep file.json …    keeps it from now on
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Kept, kept, keptFile } from './lib/kept.js'
import type { Report } from './lib/report.js'

/** The least share by which a ratio must move: a smaller move says nothing, however little the rounds differed. */
const LEAST = 0.03

function keep(figures: Kept, { bench, date, machine, node, rounds, ratios }: Report): void {
  figures[bench] = { date, machine, node, rounds, ratios: ratios.map(({ reached: _, ...ratio }) => ratio) }
}

/**
 * How many ratios have moved by more than their spread, then or now, or to a range apart from the former; or are gone.
 */
function moved(figures: Kept, report: Report): number {
  const before = figures[report.bench]
  if (before === undefined) {
    console.log(`${report.bench}: no figures are kept`)
    return 0
  }
  if (before.machine !== report.machine)
    console.log(`${report.bench}: kept on another machine, ${before.machine}`)
  let count = 0
  for (const ratio of report.ratios) {
    const old = before.ratios.find(({ name }) => name === ratio.name)
    if (old === undefined) {
      console.log(`${report.bench}: new: ${ratio.name} ${ratio.median}`)
      continue
    }
    const move = Math.abs(ratio.median - old.median)
    const spread = Math.max(old.max - old.min, ratio.max - ratio.min)
    // Needed since a ratio that spreads by more than its median could fall to 0 within its spread.
    const apart = ratio.max < old.min || old.max < ratio.min
    if (move <= LEAST * old.median || (move <= spread && !apart)) continue
    count++
    const range = ({ median, min, max }: typeof old) => `${median} (${min}–${max})`
    console.log(`${report.bench}: moved: ${ratio.name} from ${range(old)} to ${range(ratio)}`)
  }
  for (const { name } of before.ratios) {
    if (report.ratios.some(ratio => ratio.name === name)) continue
    count++
    console.log(`${report.bench}: gone: ${name}`)
  }
  console.log(
    `${report.bench}: ${count} of ${before.ratios.length} have moved since ${before.date.slice(0, 10)}`
  )
  return count
}

const { values, positionals } = parseArgs({ options: { keep: { type: 'boolean' } }, allowPositionals: true })
if (positionals.length === 0) throw new Error('Name a file that "--json file" of a bench has written.')
const figures = kept()
for (const file of positionals) {
  const report = JSON.parse(readFileSync(file, 'utf8')) as Report
  if (report.rounds === 1)
    throw new Error(`${report.bench}: one round says nothing; measure without --quick.`)
  if (values.keep) keep(figures, report)
  else if (moved(figures, report) > 0) process.exitCode = 1
}
if (values.keep) writeFileSync(keptFile, `${JSON.stringify(figures, null, 2)}\n`)
