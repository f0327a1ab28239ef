import { writeFileSync } from 'node:fs'
import { parse } from 'node:path'
import { parseArgs } from 'node:util'
import { machine } from './machine.js'
import { type Sample, type Samples, type Size, type Summary, sizeOf, summarize } from './rounds.js'

/** A subject compared with another of the same round (`by`), or its plain figure. */
export interface Comparison {
  name: string
  of: string
  by?: string
  column: string
  /** The target, as `atLeast` or `atMost`. */
  atLeast?: number
  atMost?: number
}

export interface Ratio extends Summary {
  name: string
  target?: string
  reached?: boolean
}

export interface Report {
  bench: string
  date: string
  machine: string
  node: string
  rounds: number
  results: ({ name: string } & Record<string, Summary | string>)[]
  ratios: Ratio[]
}

/** `--quick` and `--json file`. */
export function commandLine(): { size: Size; json: string | undefined } {
  const { values } = parseArgs({ options: { quick: { type: 'boolean' }, json: { type: 'string' } } })
  return { size: sizeOf(values.quick ?? false), json: values.json }
}

/** Prints tables, then writes JSON into the file. */
export function report(
  { size, json }: ReturnType<typeof commandLine>,
  units: string,
  samples: Samples,
  comparisons: readonly Comparison[]
): void {
  const results = [...samples].map(([name, all]) => ({
    name,
    ...Object.fromEntries(
      Object.keys(all[0] ?? {}).map(column => [column, summarize(all.map(each => each[column] as number))])
    )
  })) as Report['results']
  const ratios = comparisons.map(comparison => compare(samples, comparison))
  const bench = parse(process.argv[1] ?? '').name
  const about = { bench, date: new Date().toISOString(), machine, node: process.version, rounds: size.rounds }
  console.log(`${bench}, ${about.date}, ${machine}, Node ${about.node}`)
  console.log(`${units}; medians (min–max) of ${size.rounds} rounds`)
  console.table(rows(results))
  console.table(
    rows(
      ratios.map(({ name, target, reached, ...ratio }) => ({
        name,
        ratio,
        ...(target && { target, reached: reached ? 'yes' : 'no' })
      }))
    )
  )
  if (json)
    writeFileSync(json, `${JSON.stringify({ ...about, results, ratios } satisfies Report, null, 2)}\n`)
}

function compare(samples: Samples, { name, of, by, column, atLeast, atMost }: Comparison): Ratio {
  const above = samples.get(of) as Sample[]
  const below = by === undefined ? above.map(() => ({ [column]: 1 })) : (samples.get(by) as Sample[])
  // A bench that ran out of time has fewer samples of some subjects.
  const both = above.slice(0, below.length)
  const summary = summarize(
    both.map((sample, i) => (sample[column] as number) / (below[i]?.[column] as number))
  )
  if (atLeast !== undefined)
    return { name, ...summary, target: `≥ ${atLeast}`, reached: summary.median >= atLeast }
  if (atMost !== undefined)
    return { name, ...summary, target: `≤ ${atMost}`, reached: summary.median <= atMost }
  return { name, ...summary }
}

function rows(results: readonly Record<string, unknown>[]): Record<string, Record<string, unknown>> {
  const text = (value: unknown) => {
    if (typeof value !== 'object' || value === null) return value
    const { median, min, max } = value as Summary
    return min === max ? String(median) : `${median} (${min}–${max})`
  }
  return Object.fromEntries(
    results.map(({ name, ...columns }) => [
      String(name),
      Object.fromEntries(Object.entries(columns).map(([column, value]) => [column, text(value)]))
    ])
  )
}
