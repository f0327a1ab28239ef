import { setTimeout as sleep } from 'node:timers/promises'

const PATIENCE_MS = 30_000

/** Waits for a state that is due, however long that takes here. @throws when it never comes */
export async function until(
  state: () => boolean | Promise<boolean>,
  what: string,
  patienceMs = PATIENCE_MS
): Promise<void> {
  const end = performance.now() + patienceMs
  while (!(await state())) {
    if (performance.now() > end) throw new Error(`never came: ${what}`)
    await sleep(2)
  }
}
