import type { SendLimitOptions } from '../plugin/index.js'

/** Milliseconds of a clock that never steps, and of the wall clock. */
export type Clock = NonNullable<SendLimitOptions['clock']>

export const systemClock: Clock = { monotonic: () => performance.now(), wall: () => Date.now() }
