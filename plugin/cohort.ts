import { setImmediate } from 'node:timers'

let gathering: Promise<void> | undefined

/**
 * Waits for the end of this turn of the event loop, together with all others that ask in the same turn. Requests that
 * go on together run the same code one after another, while it is in the processor's caches (cohort scheduling: Larus
 * and Parkes, USENIX 2002).
 */
export function cohort(): Promise<void> {
  gathering ??= new Promise(resolve =>
    setImmediate(() => {
      gathering = undefined
      resolve()
    })
  )
  return gathering
}
