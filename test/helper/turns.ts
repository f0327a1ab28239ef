import { setImmediate as turn } from 'node:timers/promises'

/** Lets the event loop turn: by then all has happened that waits for nothing outside this process. */
export async function turns(count = 10): Promise<void> {
  for (let i = 0; i < count; i++) await turn()
}
