import type { Cell, Fields } from './kind.js'

/** When a value was counted, and its number. */
export type Pair = [stamp: number, value: number]
export const STAMP = 0
export const VALUE = 1

/** Divides the newest pair of each value, in front, from those before them. */
export const DIVIDER: Pair = [0, 0]

/** Where the divider stands, or would. */
export function endOfNewest(pairs: Fields): number {
  const end = find(pairs, 0, pairs.length, STAMP, DIVIDER[STAMP])
  return end < 0 ? pairs.length : end
}

export function pairsOf(pairs: Fields, from: number, to: number): Pair[] {
  const found: Pair[] = []
  for (let i = from; i < to; i += 2) found.push([pairs.at(i), pairs.at(i + VALUE)])
  return found
}

/** The first pair of which a field is this; -1 where there is none. */
export function find(pairs: Fields, from: number, to: number, field: number, wanted: number): number {
  for (let i = from; i < to; i += 2) if (pairs.at(i + field) === wanted) return i
  return -1
}

/** Takes a pair out of a cell, and with the last one behind the divider that, too. @param end where it stands */
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
