import type { Clock } from '../plugin/index.js'

export type { Clock }

/** An instant, by both clocks. */
export interface Instant {
  monotonic: number
  wall: number
}

export const systemClock: Clock = { monotonic: () => performance.now(), wall: () => Date.now() }

/** A time as answers give it: ISO 8601, UTC. @param ms since the epoch */
export const iso = (ms: number) => new Date(ms).toISOString()

export function instantIn(ms: number, clock: Clock): Instant {
  return { monotonic: clock.monotonic() + ms, wall: clock.wall() + ms }
}

/**
 * Milliseconds until an instant, by the clock that reaches it first; 0 or less when it has passed. Both clocks are
 * read, since the monotonic one stands still while a machine is suspended, and the wall clock may be set back.
 */
export function msUntil({ monotonic, wall }: Instant, clock: Clock): number {
  return Math.min(monotonic - clock.monotonic(), wall - clock.wall())
}
