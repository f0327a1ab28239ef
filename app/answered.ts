import { setTimeout as sleep } from 'node:timers/promises'

/** A connection that leaves so many pings in a row without an answer is dead: its other end may be gone without a word. */
export const SILENT = 10
/** Over a silent connection each takes as long as two pings, so half as many outlast it; three more are for the next connection. */
const TRIES = SILENT / 2 + 3

/**
 * What Redis answers, waited for `ms` milliseconds at most. What came while this process was busy is read first; the second
 * half of the time begins when the first timer fires, since what was asked may have left behind that.
 * @param unavailable makes the problem that is thrown, with its cause
 * @param takeBack undoes what the command did, if it did anything. Where no answer came in time it is called at once, and
 * again until it succeeds, `TRIES` times at most; and once more if the answer comes late, since a cluster may have carried
 * the command out meanwhile
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
    timer = setTimeout(() => {
      timer = setTimeout(() => setImmediate(end), ms / 2)
    }, ms / 2)
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

/** The same of a command that may be carried out twice: where no answer came it is asked again, as `takeBack` would be. */
export function askedAgain<T>(ask: () => Promise<T>, ms: number, unavailable: () => Error): Promise<T> {
  return answered(ask(), ms, unavailable, () => answered(ask(), ms, unavailable))
}

/** Asks until there is an answer, but `TRIES` times at most, `ms` milliseconds after each failure. */
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
