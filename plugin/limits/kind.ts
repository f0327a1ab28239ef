import type { Entry, Spec } from '../store/store.js'

/** What is kept for one identity, as a run of numbers below 2^48; empty when nothing is. */
export interface Fields {
  readonly length: number
  at(index: number): number
}

/** The same in memory, where it is changed in place. */
export interface Cell extends Fields {
  set(index: number, value: number): void
  /** Copies `count` fields inside the cell. */
  move(to: number, from: number, count: number): void
  /** Adds or removes fields at the end; to none: forgets the cell. @returns false when there is no room */
  resize(length: number): boolean
  /** Forgets the cell this many ticks from now. */
  expire(after: number): void
}

/** The store's clocks, in ticks: one that never steps, and the wall clock. Redis has one for both. */
export interface Now {
  steady: number
  wall: number
  /** The least receipt that was never given back: `steady`, or later. */
  fresh: number
}

type EntryOf<S extends Spec> = Entry & { spec: S }

/**
 * One kind of thing that rules keep: how it is read, counted in and given back. The scripts in `lua/` do the same
 * by the kind's code.
 */
export interface Kind<S extends Spec> {
  /** The kind's number in the scripts. */
  readonly code: number
  /**
   * Writes two facts a limit: used before, and ticks until a slot returns.
   * @param at where they begin
   * @returns whether one more may go
   */
  read(facts: number[], at: number, fields: Fields, now: Now, entry: EntryOf<S>): boolean
  /** What the next one counted is called, above every receipt that this cell gave out before. */
  receipt(fields: Fields, now: Now, spec: S): number
  /**
   * Counts one.
   * @param ends where a calendar limit was counted by another store, the end of its period there; else 0
   * @returns its receipt; 0 when there is no room, or its period is over here
   */
  charge(cell: Cell, now: Now, entry: EntryOf<S>, token: string, ends: number): number
  /** The last receipt given out; 0 where receipts name nothing. */
  latest(fields: Fields): number
  /**
   * Gives back what the receipt names; leaves alone what is gone, or somebody else's.
   * @returns false when there is no room to remember it: then it stays counted
   */
  refund(cell: Cell, receipt: number, ends: number, token: string): boolean
  /** Where a refund leaves a trace: undoes the last charge, of whose receipt nobody has heard. */
  undo?(cell: Cell): void
  /** Whether the same request, once counted and done, passes again at once: what it holds is free, or counts it no more. */
  readonly repeatable: boolean
  /**
   * How far ahead its first field is at most, in milliseconds. What is further by more than an hour was written by a clock
   * that was wrong.
   */
  furthest(spec: S): number
  /** What the script that decides is told of an entry, after its time to live. */
  describe(entry: EntryOf<S>): readonly number[]
  /** What deciding on it costs that script at most; a short log costs 1. */
  work(spec: S): number
  /** What that script is told with each call, if anything. @param wall milliseconds since the epoch, by the store's clock */
  argument(entry: EntryOf<S>, wall: number, token: string): string | undefined
}
