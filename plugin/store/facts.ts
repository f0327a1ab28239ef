/**
 * What a store answers, as one flat list: `NOW` and `ADMITTED`, then the facts of each entry, from `FIRST` on, in the
 * order in which the store was asked. Those of one entry begin at its "head", with its state: `PASSES`, for example.
 */
export type Facts = readonly number[]

/** The place of the time at which the store decided, in ticks of the wall clock. */
export const NOW = 0
/** The place of whether the store admits, 1 or 0. */
export const ADMITTED = 1
/** The head of the first entry. */
export const FIRST = 2

// Places in the facts of an entry, from its head on.

/** The receipt; 0 when nothing was counted. */
export const RECEIPT = 1
/** Of a blocked entry, in place of the receipt: the ticks until its block ends, Infinity without an end. */
export const BLOCKED_FOR = 1
/** Of the first limit: how many were used before this one. */
export const USED = 2
/** Of the first limit: the ticks until a slot returns, for a count until its period ends; else 0 when none is used. */
export const RETURNS_IN = 3
/** From the facts of one limit to those of the next. */
export const PER_LIMIT = 2

// The states of an entry.

export const REFUSES = 0
export const PASSES = 1
export const BLOCKED = 2
/**
 * The entry was not asked about: it was left out by the refusal cache, or is on a lost node of a cluster with
 * `onStoreError: 'allow'`. Its other facts mean nothing.
 */
export const UNKNOWN = 3

/** How many facts an entry has. */
export function factsOf({ limits }: { limits: readonly unknown[] }): number {
  return USED + PER_LIMIT * limits.length
}
