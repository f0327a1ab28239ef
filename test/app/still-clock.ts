import type { Clock } from '../../app/clock.js'

export const START_MS = Date.UTC(2026, 2, 1)

/** A clock that stands still until it is moved. */
export function stillClock(): { clock: Clock; advance(ms: number): void } {
  let now = 0
  return {
    clock: { monotonic: () => now, wall: () => START_MS + now },
    advance: ms => void (now += ms)
  }
}
