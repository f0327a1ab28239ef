/** Milliseconds of a clock that never steps (any origin), and of the wall clock (since the epoch). */
export interface Clock {
  monotonic(): number
  wall(): number
}

export const systemClock: Clock = { monotonic: () => performance.now(), wall: () => Date.now() }
