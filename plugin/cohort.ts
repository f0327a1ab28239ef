import { setImmediate } from 'node:timers'

let gathering: Promise<void> | undefined

/**
 * Until the end of this turn of the event loop, for all that ask in it. Requests that go on together run the same code one
 * after another, which is then in the processor's caches (cohort scheduling: Larus and Parkes, USENIX 2002).
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
