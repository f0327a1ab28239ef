import type { Cell, Fields } from './kind.js'

/** When a value was counted, and its number. */
export type Pair = [stamp: number, value: number]
export const STAMP = 0
export const VALUE = 1

/** Divides the newest pair of each value, in front, from the earlier pairs. */
export const DIVIDER: Pair = [0, 0]

/** Where the divider stands, or would stand. */
export function endOfNewest(pairs: Fields): number {
  const end = find(pairs, 0, pairs.length, STAMP, DIVIDER[STAMP])
  return end < 0 ? pairs.length : end
}

export function pairsOf(pairs: Fields, from: number, to: number): Pair[] {
  const found: Pair[] = []
  for (let i = from; i < to; i += 2) found.push([pairs.at(i), pairs.at(i + VALUE)])
  return found
}

/** The index of the first pair whose `field` is `wanted`; -1 when there is none. */
export function find(pairs: Fields, from: number, to: number, field: number, wanted: number): number {
  for (let i = from; i < to; i += 2) if (pairs.at(i + field) === wanted) return i
  return -1
}

/** Takes a pair out of a cell; with the last one behind the divider, the divider as well. @param end its index */
export function without(cell: Cell, pair: number, end: number): boolean {
  const { length } = cell
  if (pair > end && length === end + 4) return cell.resize(end)
  cell.move(pair, pair + 2, length - pair - 2)
  return cell.resize(length - 2)
}

export function write(cell: Cell, at: number, [stamp, value]: Pair): void {
  cell.set(at, stamp)
  cell.set(at + VALUE, value)
}
