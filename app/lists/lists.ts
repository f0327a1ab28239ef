import { problem } from '../problem.js'

/** How somebody stands: sent nothing, or sent to uncounted. */
export type Standing = 'blocked' | 'allowed'

/** Who is to be put on a list. */
export interface Placing {
  standing: Standing
  /** What is shown of the recipient, where that is known. */
  masked?: string | undefined
  /** In the operator's words. */
  reason?: string | undefined
  /** In milliseconds, more than 0; without it until removed. */
  durationMs?: number | undefined
}

/** Somebody on a list. Times are milliseconds since the epoch, by the store's clock. */
export interface Placed {
  standing: Standing
  masked?: string
  reason?: string
  since: number
  /** When it ends by itself; left out: never. */
  until?: number
}

/** Who stands on a page of the lists. */
export interface Listed extends Placed {
  recipientHash: string
}

/** Somebody who is on a list now. */
export interface Found extends Placed {
  /** Where it ends by itself: how long until then, in milliseconds, by the store's clock. */
  leftMs?: number
}

export interface Page {
  /** Which list; both when left out. */
  standing?: Standing | undefined
  /** How many at most, from 1. */
  limit: number
  /** The `next` of the page before. */
  after?: string | undefined
}

/**
 * Who is blocked or allowed, by their hash of the audit trail; nobody is on both lists. An entry ends at its `until`, and
 * is cleaned up at the latest when the lists are read, or its room is needed, of many some at a time.
 */
export interface Lists {
  /** Puts somebody on a list; where they were before, they no longer are. @throws a problem (503) when full */
  put(recipientHash: string, placing: Placing): Promise<Placed>
  /** One trip to the store, whoever it is. */
  get(recipientHash: string): Promise<Found | null>
  /** Takes somebody off the lists, if they are on one. */
  remove(recipientHash: string): Promise<void>
  /** Newest first. `next` is null on the last page; a page may be shorter than its limit. */
  all(page: Page): Promise<{ entries: Listed[]; next: string | null }>
  /**
   * For the start: asks whose lists they are. Nothing is said while the store does not answer.
   * @throws ConfigError when they are kept under another secret, so that each other method would fail
   */
  verify(): Promise<void>
}

/** How many entries the lists hold. */
export const MAX_ENTRIES = 100_000

export const full = (max: number) =>
  problem(503, 'LISTS_FULL', 'The lists hold {max} recipients, the most they take. Unblock some first.', {
    max
  })
