import type { Awaitable } from '../awaitable.js'
import type { Period } from '../calendar.js'
import type { Facts } from './facts.js'

/**
 * What every store does. The memory store and the Redis store both do what is said here.
 *
 * A store keeps four kinds of things, one per rule, identity and kind (a count for each calendar limit):
 * - a **log**: the stamps of what was counted, newest first, strictly decreasing, as many as the largest `max` needs.
 *   A stamp counts in a window from its own instant up to, and not with, the instant one window later.
 * - a **count** of one calendar period: its end, how much is used, the last receipt (receipts count up from the
 *   clock), and which receipts were refunded. A request takes its cost, with one receipt; it passes when that is left.
 * - a **lock**: its end and its holder's token.
 * - a **distinct log**: pairs of a stamp, as in a log, and the number of the value that was sent to. For each limit,
 *   *used* is how many values other than the request's own have a pair in the window. A slot returns when the last pair
 *   of the `max`-th newest of these values (of the oldest, when there are fewer) leaves the window. The limit passes
 *   when fewer than `max` are used. If the own value has a pair in the window, the limit always passes, unless `max`
 *   other values were counted after it (`max` was lowered): the `max` newest values may be repeated, and then *used* is
 *   at most `max` - 1. So a value that passes goes on passing as time goes by, and a `max` of 0 refuses all.
 *   The newest pair of each value stands in front, the others behind: at least 500 / `max` pairs of each value in all.
 *   So a refund is exact while fewer than that are in flight at once, from one identity to one value.
 */

/**
 * Times are ticks of 10 µs: fine enough to give each stamp of a key an instant of its own, coarse enough to fit 48 bits
 * until 2109. All times come from the store's own clock.
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
  /** Length of the window, in milliseconds. A day has 24 hours, even when the clocks change; a month has 30 days. */
  windowMs: number
}

interface SpecBase {
  /** The last part of the key's name: that of the rule, and what distinguishes its keys (lua/README.md). */
  name: string
  /** Number of the rule: all entries of a rule are counted, or none is. */
  rule: number
  /** A small number for this name and kind of identity, unique in this app: a rule keeps it when it is replaced. */
  series: number
  /** Whether the rule is only observed: it is counted as if it were in force, but refuses nothing. */
  observed: boolean
  /** Whether keys may be dropped when memory is full: the oldest of the series that has the most keys. */
  forgettable: boolean
  /**
   * How long a key lives after the last count in it, in milliseconds. A calendar count lives to the end of its period,
   * which is at most so long; in memory an hour longer.
   */
  ttl: number
  /** In the order of the entry's facts. A count and a lock have one. */
  limits: readonly Limit[]
  /** Shared by all specs of the series: once rules were replaced, the spec that is in force; null if its rule is gone. */
  inForce: { spec?: Spec | null }
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

/** Each `max` is a number of different values, 100 at most. */
export interface DistinctSpec extends SpecBase {
  kind: 'distinct'
}

export type Spec = LogSpec | CountSpec | LockSpec | DistinctSpec

/** Whether no other spec has taken the place of this one, and its rule is not gone. */
export function isInForce(spec: Spec): boolean {
  return spec.inForce.spec === undefined || spec.inForce.spec === spec
}

/** The spec by which the counts of this one are kept: a request may have begun under a rule that was replaced since. */
export function specInForce<S extends Spec>(spec: S): S {
  return (spec.inForce.spec ?? spec) as S
}

/** One thing that a decision looks at: what is kept (a spec), and for whom. */
export interface Entry {
  spec: Spec
  /** A keyed hash of 22 characters. With the store `memory` it is the text itself, of which that store keeps a hash. */
  identity: string
  /** In place of the spec's own `max`, limit by limit, for this decision alone. */
  max?: readonly number[] | undefined
  /** Where different values are counted: the number of this request's value, below 2^48, from a keyed hash. */
  value?: number | undefined
  /** How much of a count this request takes, if its rule has a `cost`; any other takes 1. */
  cost?: number | undefined
  /** Whether a time zone of its rule comes from this request. */
  zoned?: boolean
}

/** An entry that was counted, and what names its slot. */
export interface Taken<E extends Entry = Entry> {
  entry: E
  receipt: number
  /** End of the calendar period it was counted in, in ticks; 0 for other kinds. */
  ends: number
}

export interface Store {
  readonly name: string

  /**
   * Decides over all entries at once. It admits when every entry that is not observed passes. Then each entry is
   * counted, except the entries of an observed rule of which one does not pass. A refusal changes nothing.
   * @param token 24 characters, the holder's name on every lock taken here
   * @throws StoreFullError when a live limit would have to be forgotten
   */
  reserve(entries: readonly Entry[], token: string): Awaitable<Facts>

  /**
   * Counts what was admitted elsewhere, even beyond `max`. It counts as of `ago` ticks ago, or as of just after what
   * was counted last here, if that is later.
   * @param ends for a count the end of its period, in ticks
   * @returns the receipt; 0 when it was not counted: its time is over, there is no room, or in Redis it is blocked
   */
  count(entry: Entry, ago: number, ends?: number): Awaitable<number>

  /** The facts as `reserve` would find them; changes nothing. */
  peek(entries: readonly Entry[]): Awaitable<Facts>

  /**
   * Gives back exactly these slots, and the locks among them that are held under `token`. Slots that are gone, or were
   * given back before, are left alone.
   * @param late called when they are given back after this has rejected
   */
  refund(taken: readonly Taken[], token: string, late?: () => void): Awaitable<void>

  /** Renews a lock held under `token`: from now on it lasts its time to live. @returns whether it was still held */
  renew(entry: Entry, token: string): Awaitable<boolean>

  /** Clears what is counted; blocks stay. */
  clear(entries: readonly Entry[]): Awaitable<void>

  /** Blocks the identities for `ms` milliseconds, or with 0 until they are unblocked. What is counted stays. */
  block(entries: readonly Entry[], ms: number): Awaitable<void>

  unblock(entries: readonly Entry[]): Awaitable<void>

  close(): Awaitable<void>
}

/** What a settlement needs of the store that has counted a decision. */
export interface Settling extends Pick<Store, 'name' | 'refund' | 'renew'> {
  /** Where several stores have decided together: the name of the one that has counted this identity. */
  nameOf?(identity: string): string
}
