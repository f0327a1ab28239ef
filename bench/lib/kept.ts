import { existsSync, readFileSync } from 'node:fs'
import type { Ratio, Report } from './report.js'

/** The figures that the repository keeps, by bench. */
export type Kept = Record<
  string,
  Pick<Report, 'date' | 'machine' | 'node' | 'rounds'> & { ratios: Omit<Ratio, 'reached'>[] }
>

/** Relative, since every bench runs in the root of the repository. */
export const keptFile = 'bench/figures.json'

export function kept(): Kept {
  return existsSync(keptFile) ? (JSON.parse(readFileSync(keptFile, 'utf8')) as Kept) : {}
}
