/** How a code ended; `''` while it may be used. */
export type Ended = '' | 'verified' | 'failed' | 'cancelled'

/** The stored record of a code. Without the key, it reveals neither the code nor its recipient. */
export interface Kept {
  /** Recipient, purpose and the like, encrypted. */
  sealed: string
  /** Which code of this id is valid, counted from 1. */
  generation: number
  /** The last generation made, plus one for each reuse. A generation that was taken back is not made again. */
  made: number
  triesLeft: number
  /** Milliseconds until the code expires; 0 or less when it has expired. */
  lifeMs: number
  ended: Ended
  /** The sender that took the message of the valid code; `''` while none is known to have. */
  sender: string
  /** The sender that last may have taken a message of this id, and did not say so; `''` if there is none. */
  perhaps: string
}

/** Whether the valid code may still be used. */
export const isUsable = ({ ended, lifeMs }: Pick<Kept, 'ended' | 'lifeMs'>) => ended === '' && lifeMs > 0

/** Whether another code may follow under the same id. */
export const isRenewable = ({ ended }: Pick<Kept, 'ended'>) => ended !== 'verified' && ended !== 'cancelled'

/** The lifetime of a code in milliseconds, and how often it may be tried. */
export interface Terms {
  lifeMs: number
  tries: number
}

export interface Checked {
  verified: boolean
  triesLeft: number
  /** Whether there was a code to try. A try of an ended or unknown code is no guess. */
  tried: boolean
  /** When verified, the receipts that were noted with the messages of all codes of this id. */
  receipts: string[]
}

/** The result when there was no code to try. */
export const UNTRIED: Checked = { verified: false, triesLeft: 0, tried: false, receipts: [] }

/** What is noted of a code when its message has gone out, or may have. */
export interface Sent {
  /** The sender that took the message; `''` when none is known to have. */
  sender: string
  /** The sender that may have taken the message, and did not say so; `''` otherwise. */
  perhaps: string
  /** What gives the message back to the rule `unverified`; `''` when that has not counted it. */
  receipt: string
}

/** How long a record is kept after its last code was made, in milliseconds. */
export const RETENTION_MS = 1_800_000

/**
 * The store of codes, by a hash of their id, until `RETENTION_MS` after the last code of an id was made. Each call is
 * atomic: nothing comes between what it reads and what it writes.
 */
export interface Records {
  /** Stores a new record, of generation 1. @throws a problem (503) when no more can be stored */
  put(key: string, sealed: string, terms: Terms): Promise<void>
  /** @returns null when there is no record, or no longer */
  get(key: string): Promise<Kept | null>
  /**
   * Counts a try. The right code is used up by it. A wrong one costs a try, and the last wrong one ends the code. A try
   * that the store does not answer in time may count as a wrong one; if it used the code up, it is taken back, provided
   * that the store can be reached.
   * @param generation the generation whose code was given, 0 if no generation has it; right only if it is the valid one
   */
  check(key: string, generation: number): Promise<Checked>
  /**
   * Makes the next generation the valid one, with the given terms. A resend that the store does not answer in time is
   * taken back, provided that the store can be reached.
   * @param token unique to this resend
   * @returns the generation made, or null when there is no record or its code was verified or cancelled
   */
  rotate(key: string, terms: Terms, token: string): Promise<number | null>
  /**
   * Takes a resend back: the generation before it is valid again, as it was, unless the generation that the resend made
   * has ended or was given out again. Several resends may be taken back, in any order. Repeated when the store does not
   * answer.
   */
  restore(key: string, token: string): Promise<void>
  /** Gives the valid code out again. @returns the record as it was before, or null when the code has ended */
  reuse(key: string): Promise<Kept | null>
  /** Ends a code for good: no resend may follow. @returns false when it was verified or cancelled before */
  cancel(key: string): Promise<boolean>
  /**
   * Notes what became of the message of this generation: its receipt, of which the last nine of a record are kept; who
   * may have taken it; and who took it, if this generation is the valid one, or may be again when a resend is taken
   * back.
   * @returns whether the code was verified before, so that its `check` did not tell this receipt
   */
  noteSent(key: string, generation: number, sent: Sent): Promise<boolean>
  /** Deletes the record, unless a resend has made another code or given the same one out again. */
  drop(key: string): Promise<void>
}
