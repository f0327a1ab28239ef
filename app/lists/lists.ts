import { problem } from '../problem.js'

/** How a recipient stands: a blocked one is sent nothing, an allowed one passes some rules (recipient-rules.ts). */
export type Standing = 'blocked' | 'allowed'

/** How a recipient is to be put on a list. */
export interface NewEntry {
  standing: Standing
  /** What is shown of the recipient, if known. */
  masked?: string | undefined
  /** Why, in the operator's words. */
  reason?: string | undefined
  /** How long, in milliseconds, more than 0. Left out: until removed. */
  durationMs?: number | undefined
}

/** An entry of a list. Times are milliseconds since the epoch, by the store's clock. */
export interface ListEntry {
  standing: Standing
  masked?: string
  reason?: string
  since: number
  /** When the entry ends by itself; left out: never. */
  until?: number
}

/** An entry on a page of the lists. */
export interface PageEntry extends ListEntry {
  recipientHash: string
}

/** An entry that is in force now. */
export interface CurrentEntry extends ListEntry {
  /** If the entry ends by itself: how long until then, in milliseconds, by the store's clock. */
  leftMs?: number
}

export interface Page {
  /** Which list; both when left out. */
  standing?: Standing | undefined
  /** The most entries on the page, 1 or more. */
  limit: number
  /** The `next` of the page before. */
  after?: string | undefined
}

/**
 * The recipients that are blocked or allowed, by the hash that the audit trail shows; no recipient is on both lists. An
 * entry ends at its `until`. It is deleted later, when the lists are read or its room is needed, a bounded number of
 * entries at a time.
 */
export interface Lists {
  /** Puts a recipient on a list, in place of any former entry. @throws a problem (503) when the lists are full */
  put(recipientHash: string, entry: NewEntry): Promise<ListEntry>
  /** Takes one round trip to the store, whether or not the recipient is on a list. */
  get(recipientHash: string): Promise<CurrentEntry | null>
  /** Takes a recipient off the lists, if on one. */
  remove(recipientHash: string): Promise<void>
  /** The entries of a page, newest first. `next` is null on the last page. A page may be shorter than its limit. */
  all(page: Page): Promise<{ entries: PageEntry[]; next: string | null }>
  /**
   * For the start: checks under which secret the lists are kept. Passes while the store does not answer.
   * @throws ConfigError when they are kept under another secret, so that each other method would fail
   */
  verify(): Promise<void>
}

/** The most entries that the lists hold. */
export const MAX_ENTRIES = 100_000

export const full = (max: number) =>
  problem(503, 'LISTS_FULL', 'The lists hold {max} recipients, the most they take. Unblock some first.', {
    max
  })
