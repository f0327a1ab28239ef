/** What is kept of a code. Nothing in it tells the code or its recipient. */
export interface Ticket {
  /** Stands for one recipient and purpose: one code lives there at a time. */
  slot: string
  /** Tells this code from others of its slot. */
  nonce: string
  /** Keyed hash of the code. */
  digest: string
}

export type Checked = { verified: true } | { verified: false; attemptsLeft: number }

/** Where codes are kept until they are used. */
export interface Codes {
  /** Keeps a code; whatever the slot held before is ended. */
  keep(ticket: Ticket, lifetimeMs: number, tries: number): Promise<void>
  /**
   * Checks a code and in the same step ends it when it is right, or when that was the last try.
   * What is not there (never, no longer, used) has no attempts left.
   */
  check(ticket: Ticket): Promise<Checked>
  /** Ends a code, if it still is the one of its slot. */
  cancel(ticket: Pick<Ticket, 'slot' | 'nonce'>): Promise<void>
}
