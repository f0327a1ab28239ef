import { existsSync, readFileSync } from 'node:fs'
import type { Ratio, Report } from './report.js'

/** The figures that the repository keeps, by bench. */
export type Kept = Record<
  string,
  Pick<Report, 'date' | 'machine' | 'node' | 'rounds'> & { ratios: Omit<Ratio, 'reached'>[] }
>

export const keptFile = new URL('../figures.json', import.meta.url)

export function kept(): Kept {
  return existsSync(keptFile) ? (JSON.parse(readFileSync(keptFile, 'utf8')) as Kept) : {}
}
