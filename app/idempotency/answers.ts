/** Names a request among all others, by keyed hashes. */
export interface Slot {
  /**
   * Whose key it is: the account that an API key proves, else the network, with a page's account. A scope has a bounded
   * number of slots.
   */
  scope: string
  /** The `Idempotency-Key`, with the route that it was sent to. */
  key: string
}

/** The result of `begin`. */
export type Begun =
  /** The slot is the caller's until it finishes or frees it, or its lease ends. */
  | { is: 'begun' }
  /** Another request holds the slot, and its lease has not ended. */
  | { is: 'running' }
  | { is: 'finished'; answer: string }
  /** The slot is running or finished, with another body. */
  | { is: 'other-body' }
  /** There is no room, since slots that are running are never given up. */
  | { is: 'full' }

/** Bounds of what is kept. A slot that is running is never given up. */
export interface Bounds {
  /** The most slots of one scope; beyond them, its own oldest finished slot goes. */
  perScope: number
  /** How long an answer is kept, in milliseconds. */
  keepMs: number
}

/**
 * The store of first answers. Each call is atomic: of many that begin one slot at the same time, one gets it. The store
 * sees only keyed hashes and encrypted answers.
 * @throws a problem (503) in every call when the store does not answer
 */
export interface Answers {
  /**
   * Takes a slot. When the store does not answer in time, the slot is freed again, provided that the store can be
   * reached.
   * @param body keyed hash of the body
   * @param token unique to this holder
   * @param leaseMs how long the slot is held if its holder never finishes or frees it
   */
  begin(slot: Slot, body: string, token: string, leaseMs: number): Promise<Begun>
  /** Keeps the answer. @returns false when this holder does not, or no longer, have the slot */
  finish(slot: Slot, token: string, answer: string): Promise<boolean>
  /** Forgets the slot, if it is this holder's. */
  free(slot: Slot, token: string): Promise<void>
}
