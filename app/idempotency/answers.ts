/** Names a request among all others, by keyed hashes. */
export interface Slot {
  /** Whose key it is: the account that a key proves, else the network. One scope has a bounded number of slots. */
  scope: string
  /** The `Idempotency-Key`, with the route that it was sent to. */
  key: string
}

/** How a request with a key begins. */
export type Begun =
  /** The slot is the caller's until it finishes or frees it, or its lease ends. */
  | { is: 'begun' }
  /** Somebody else's, whose lease runs. */
  | { is: 'running' }
  | { is: 'finished'; answer: string }
  /** Running or finished, with another body. */
  | { is: 'other-body' }
  /** Every slot that could be given up is running. */
  | { is: 'full' }

/** How many slots there are; none are given up that still run. */
export interface Bounds {
  /** Of one scope; past it, its own oldest finished slot goes. */
  perScope: number
  /** How long an answer is kept, in milliseconds. */
  keepMs: number
}

/**
 * Where first answers are kept. Each call is one step: of many that begin one slot at the same time, one has it. What
 * it is to hold and to compare comes in hashed or encrypted.
 * @throws a problem (503) in every call when the store does not answer
 */
export interface Answers {
  /**
   * A slot whose begin was not answered is freed, as far as the store can be reached.
   * @param body a keyed hash of the body
   * @param token of this holder alone
   * @param leaseMs for how long the slot is held when its holder is never heard of again
   */
  begin(slot: Slot, body: string, token: string, leaseMs: number): Promise<Begun>
  /** Keeps the answer. @returns false when the slot is not or no longer this holder's */
  finish(slot: Slot, token: string, answer: string): Promise<boolean>
  /** Forgets the slot, if it is this holder's. */
  free(slot: Slot, token: string): Promise<void>
}
