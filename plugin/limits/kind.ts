import type { Entry, Spec, Taken } from '../store/store.js'

/**
 * What is kept for one identity, as a run of numbers below 2^48; empty when nothing is. A value of Redis is read in the
 * same way: what `read` and `receipt` look at has the same places there.
 */
export interface Fields {
  readonly length: number
  at(index: number): number
}

/** Fields in memory, where they are changed in place. */
export interface Cell extends Fields {
  set(index: number, value: number): void
  /** Copies `count` fields inside the cell. */
  move(to: number, from: number, count: number): void
  /** Adds or removes fields at the end; a length of 0 forgets the cell. @returns false when there is no room */
  resize(length: number): boolean
  /** Forgets the cell at this tick of the steady clock. */
  expire(at: number): void
}

/** The store's clocks, in ticks: one that never steps, and the wall clock. Redis has one for both. */
export interface Now {
  steady: number
  wall: number
  /** The earliest receipt that was never given back: `steady`, or later. */
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
   * Writes two facts for each limit: how many are used, and the ticks until a slot returns.
   * @param at where these facts begin
   * @returns whether one more may be counted
   */
  read(facts: number[], at: number, fields: Fields, now: Now, entry: EntryOf<S>): boolean
  /** The receipt of what is counted next: above every receipt that this cell gave out before. */
  receipt(fields: Fields, now: Now, spec: S): number
  /**
   * Counts one more.
   * @param ends if another store has counted it under a calendar limit, the end of its period there; else 0
   * @returns its receipt; 0 when there is no room, or its period is over here
   */
  count(cell: Cell, now: Now, entry: EntryOf<S>, token: string, ends: number): number
  /** The last receipt given out, of a log the last one that is still there; 0 where receipts name nothing. */
  latest(fields: Fields): number
  /** The last receipt that was not given back. Only for a kind whose `latest` may have been. */
  kept?(fields: Fields): number
  /**
   * Gives back a slot. One that is gone, or somebody else's lock, is left alone.
   * @returns false when there is no room to note the refund: then the slot stays counted
   */
  refund(cell: Cell, taken: Taken, token: string): boolean
  /**
   * Renews what is still held under `token`: from now on it lasts its time to live. Only for a kind that a request holds
   * while it runs, rather than counts in.
   * @returns whether it was still held
   */
  renew?(cell: Cell, now: Now, spec: S, token: string): boolean
  /** Undoes what was counted last, whose receipt nobody knows. Only for a kind whose refunds leave a trace. */
  undo?(cell: Cell, entry: Entry): void
  /**
   * Whether the same request passes again at once after it was counted and is done: its lock is free again, or its
   * value is not counted a second time.
   */
  readonly repeatable: boolean
  /**
   * How far ahead of the clock the first field is at most, in milliseconds. A value whose first field is further ahead
   * by more than an hour was written by a clock that was wrong.
   */
  furthest(spec: S): number
  /** What the script `reserve` is told of an entry, beside what it is told of entries of every kind. */
  describe(entry: EntryOf<S>): readonly number[]
  /** How much work a decision on a spec is for that script at most; on a short log it is 1. */
  work(spec: S): number
  /**
   * The argument of that script for each decision, if any.
   * @param wall milliseconds since the epoch, by the store's clock
   */
  argument(entry: EntryOf<S>, wall: number, token: string): string | undefined
}
