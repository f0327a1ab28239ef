import { setTimeout as sleep } from 'node:timers/promises'

const PATIENCE_MS = 30_000

/** Waits for a state that must come, however slow the machine is. @throws when it does not come within `patienceMs` */
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
