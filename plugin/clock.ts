/** Milliseconds of a clock that never steps (any origin), and of the wall clock (since the epoch). */
export interface Clock {
  monotonic(): number
  wall(): number
}

export const systemClock: Clock = { monotonic: () => performance.now(), wall: () => Date.now() }

/** An instant by both clocks: while a machine is suspended, the monotonic one stands still. */
export interface Instant {
  readonly monotonic: number
  readonly wall: number
}

export function instantNow(): Instant {
  return { monotonic: systemClock.monotonic(), wall: systemClock.wall() }
}
