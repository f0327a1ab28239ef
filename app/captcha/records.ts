/** How a code ended; `''` while it may be used. */
export type Ended = '' | 'verified' | 'failed' | 'cancelled'

/** What is kept of a code. Neither the code nor its recipient can be told from it without the key. */
export interface Kept {
  /** Whose it is and what for, encrypted. */
  sealed: string
  /** Which code of this id is valid, from 1. */
  generation: number
  /** The last generation that was made: that of a code that was taken back is not made again. One more for each reuse. */
  made: number
  attemptsLeft: number
  /** Until it expires, in milliseconds; 0 or less: it has expired. */
  lifeMs: number
  ended: Ended
  /** Which one took the message of the valid code; `''` while none is known to have. */
  sender: string
}

/** The lifetime of a code in milliseconds, and how often it may be tried. */
export interface Terms {
  lifeMs: number
  tries: number
}

export interface Checked {
  verified: boolean
  attemptsLeft: number
  /** Whether there was a code to try: an ended one is not guessed at. */
  tried: boolean
}

/** There was no code to try. */
export const UNTRIED: Checked = { verified: false, attemptsLeft: 0, tried: false }

/** How long after its last code a record may be asked for, in milliseconds. */
export const RETENTION_MS = 1_800_000

/**
 * Where codes are kept, by a hash of their id, until `RETENTION_MS` after the last one was made. Each call is one step:
 * nothing comes between what it looks at and what it changes.
 */
export interface Records {
  /** Keeps a record of generation 1. @throws a problem (503) when no more can be kept */
  put(key: string, sealed: string, terms: Terms): Promise<void>
  get(key: string): Promise<Kept | null>
  /**
   * Counts a try. The right code is used up by it; a wrong one costs a try, the last wrong one ends the code. A try that
   * was not answered may count; what it used up is given back, as far as the store can be reached.
   * @param generation the generation whose code was given, 0 for a wrong code
   */
  check(key: string, generation: number): Promise<Checked>
  /**
   * Makes the next generation the valid one, with terms of its own. What was not answered is taken back, as far as the
   * store can be reached.
   * @param token of this resend alone
   * @returns the record as it was, or null when it is ended for good
   */
  rotate(key: string, terms: Terms, token: string): Promise<Kept | null>
  /**
   * Takes a resend back: the generation before it is valid again, as it was, unless the one that the resend made has
   * ended. Several resends may be taken back, in any order. Where no answer came it is asked again.
   */
  restore(key: string, token: string): Promise<void>
  /** Gives the valid code out once more. @returns the record as it was, or null when the code has ended */
  reuse(key: string): Promise<Kept | null>
  /** Ends a code for good: no other follows it. @returns false when it was verified or cancelled before */
  cancel(key: string): Promise<boolean>
  /** Notes which sender took the message of this generation, `''` for none, while that is the valid one. */
  noteSender(key: string, generation: number, sender: string): Promise<void>
  /** Forgets it, unless a code was made or given out again. */
  drop(key: string): Promise<void>
}
