import { setTimeout as sleep } from 'node:timers/promises'

/** So often something is asked to be taken back: its connection may have been lost, and is there again soon. */
const TRIES = 3

/**
 * What Redis answers, waited for `ms` milliseconds at most. What came while this process was busy is read first.
 * @param unavailable makes the problem that is thrown, with its cause
 * @param takeBack undoes what the command did without an answer, and nothing where it did nothing: asked at once and until
 * that is answered, since an answer to the command may never come; and again behind one that comes late, which a cluster may
 * have carried out after that
 */
export async function answered<T>(
  command: Promise<T>,
  ms: number,
  unavailable: () => Error,
  takeBack?: () => Promise<unknown>
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const end = () => reject(new Error(`Redis did not answer within ${ms} ms`))
    timer = setTimeout(() => setImmediate(end), ms)
  })
  try {
    return await Promise.race([command, late])
  } catch (cause) {
    if (takeBack !== undefined) {
      void untilDone(takeBack, ms)
      command.then(takeBack).catch(() => {})
    }
    throw Object.assign(unavailable(), { cause })
  } finally {
    clearTimeout(timer)
  }
}

/** Asks until there is an answer, `ms` milliseconds after each failure. */
async function untilDone(ask: () => Promise<unknown>, ms: number): Promise<void> {
  for (let tries = TRIES; tries > 0; tries--) {
    try {
      await ask()
      return
    } catch {
      await sleep(ms, undefined, { ref: false })
    }
  }
}
