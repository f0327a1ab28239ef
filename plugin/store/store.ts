import type { Awaitable } from '../awaitable.js'
import type { Period } from '../calendar.js'

/**
 * What every store does. Memory and Redis are two readings of this page.
 *
 * A store keeps four kinds of things, one per rule, identity and kind:
 * - a **log**: the stamps of what was counted, newest first, strictly decreasing, as many as the largest `max` needs.
 *   A stamp counts in a window from its own instant up to, and not with, the instant one window later.
 * - a **count** of one calendar period: its end, how many are used, the last receipt (they count up from the clock), which
 *   receipts were refunded.
 * - a **lock**: its end and its holder's token.
 * - a **distinct log**: pairs of a stamp, as in a log, and the number of the value that was sent to. Of each
 *   limit: *used* is how many values other than the request's own have a pair in the window; a slot returns when the
 *   last pair of the `max`-th newest of them (of the oldest, when there are fewer) leaves it. It passes when fewer than
 *   `max` are used. The own value, when it has a pair in the window, always does so, unless `max` other values were
 *   counted after it (`max` was lowered): the `max` newest values may be repeated, and then *used* is `max` - 1 at
 *   most. So who passes goes on passing as time goes by, and a `max` of 0 refuses all.
 *   The newest pair of each value stands in front, the others behind: of each value at least 500 / `max` in all. So a
 *   refund is exact while fewer than that are in flight at once, from one identity to one value.
 *
 * Times are ticks of 10 µs, fine enough to give each stamp of a key an instant of its own, coarse enough
 * to fit 48 bits until 2109. All of them come from the store's own clock.
 */
export const TICKS_PER_MS = 100
/** 2020-01-01T00:00:00Z, in milliseconds since the epoch. */
export const EPOCH_MS = 1_577_836_800_000

/** Milliseconds since the epoch, as ticks. */
export function toTicks(ms: number): number {
  return Math.floor((ms - EPOCH_MS) * TICKS_PER_MS)
}

/** One limit of a spec. */
export interface Limit {
  max: number
  /** Length of the window, in milliseconds; of a day 24 hours, also where the clock is set, of a month 30 days. */
  windowMs: number
}

interface SpecBase {
  /** Ends the key's name; unique to the spec. */
  name: string
  /** Number of the rule: its entries stand and fall together. */
  rule: number
  /** Small number of what is kept by this spec and of this kind of key, unique in this process. */
  series: number
  /** Counted as if it were in force, but refuses nothing. */
  observed: boolean
  /** May be forgotten when memory is full: of the series that has most keys the oldest. */
  forgettable: boolean
  /** How long the thing lives after it was last counted in, in milliseconds; a count, which ends with its period, at most. */
  ttl: number
  /** In the order of its facts. Of a count and of a lock there is one. */
  limits: readonly Limit[]
  /** Of all specs of its series: the one that took the place of others, as long as it is in force. */
  present: { spec?: Spec | undefined }
}

export interface LogSpec extends SpecBase {
  kind: 'log'
  /** How many stamps are kept. */
  keep: number
}

export interface CountSpec extends SpecBase {
  kind: 'count'
  per: Period
  timeZone: string
}

export interface LockSpec extends SpecBase {
  kind: 'lock'
}

/** Each `max` is of different values, 100 at most. */
export interface DistinctSpec extends SpecBase {
  kind: 'distinct'
}

export type Spec = LogSpec | CountSpec | LockSpec | DistinctSpec

/** By which spec is kept what this one counts: a request may have begun under a rule that was replaced since. */
export function keeperOf<S extends Spec>(spec: S): S {
  return (spec.present.spec ?? spec) as S
}

/** One thing that a decision looks at: what is kept, and for whom. */
export interface Entry {
  spec: Spec
  /** 22 characters, a keyed hash; for the memory that is nobody's stand-in the text itself, of which it keeps a hash. */
  identity: string
  /** In place of the spec's own `max`, limit by limit, for this decision alone. */
  max?: readonly number[] | undefined
  /** Where different values are counted: the number of this request's, below 2^48, from a keyed hash. */
  value?: number | undefined
  /** Its time zone comes from this request. */
  zoned?: boolean
}

/** An entry that was counted, and what names its slot. */
export interface Taken<E extends Entry = Entry> {
  entry: E
  receipt: number
  /** End of the calendar period it was counted in, in ticks; 0 for other kinds. */
  ends: number
}

export const REFUSES = 0
export const PASSES = 1
export const BLOCKED = 2
/**
 * Not asked: left out by the refusal cache, or on a lost node of a cluster with `onStoreError: 'allow'`. Its numbers say
 * nothing.
 */
export const UNKNOWN = 3

/**
 * What a store answers, as one flat list: `now` (ticks of the wall clock), admitted (1 or 0), then for each entry
 * its state (REFUSES, PASSES, BLOCKED), its receipt (0 when nothing was counted; of a blocked one the ticks until its
 * block ends, Infinity without an end), and for each of its limits two numbers: how many were used before this one, and
 * the ticks until a slot returns (0 when none is used, but for a count).
 */
export type Facts = readonly number[]

export interface Store {
  readonly name: string

  /**
   * Decides over all entries at once. Admitted when every entry that is not observed passes; then each entry is
   * counted, but those of an observed rule of which one does not pass. Refused: nothing changes.
   * @param token 24 characters, the holder's name on every lock taken here
   * @throws StoreFullError when a live limit would have to be forgotten
   */
  reserve(entries: readonly Entry[], token: string): Awaitable<Facts>

  /**
   * Counts what was admitted elsewhere, whatever is used here, as of so many ticks ago, or of what was counted last here
   * where that is later.
   * @param ends of a count the end of its period, in ticks
   * @returns its receipt; 0 when it was not counted: it is over, there is no room, or in Redis it is blocked
   */
  count(entry: Entry, ago: number, ends?: number): Awaitable<number>

  /** The facts as `reserve` would find them; changes nothing. */
  peek(entries: readonly Entry[]): Awaitable<Facts>

  /**
   * Gives back exactly these slots, none where there are none, and the locks held under `token`. What is gone, or given
   * back before, is left alone.
   */
  refund(taken: readonly Taken[], token: string): Awaitable<void>

  /** Prolongs a lock held under `token`. @returns whether it was still held */
  renew(entry: Entry, token: string): Awaitable<boolean>

  /** Forgets what is counted; blocks stay. */
  clear(entries: readonly Entry[]): Awaitable<void>

  /** Blocks the identities for `ms` milliseconds, 0: until unblocked. What is counted stays. */
  block(entries: readonly Entry[], ms: number): Awaitable<void>

  unblock(entries: readonly Entry[]): Awaitable<void>

  close(): Awaitable<void>
}

/** Where a decision was counted, as far as its settlement goes. */
export interface Settling extends Pick<Store, 'name' | 'refund' | 'renew'> {
  /** Where several stores have decided together: the one that has counted this identity. */
  nameOf?(identity: string): string
}
