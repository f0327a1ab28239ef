import { setTimeout as sleep } from 'node:timers/promises'

/** After this many unanswered pings in a row, a connection counts as dead: its other end may have vanished silently. */
export const MAX_UNANSWERED_PINGS = 10
/**
 * How often a call is repeated at most. On a silent connection each try takes as long as two pings, so half as many
 * tries as pings outlast it. Three more are for the next connection.
 */
const TRIES = MAX_UNANSWERED_PINGS / 2 + 3

/**
 * Waits for an answer of Redis, `ms` milliseconds at most. Answers that arrived while this process was busy are read
 * before the time-out. The second half of the time starts only when the first timer fires: a busy process may have sent
 * the command no sooner than that.
 * @param unavailable makes the error to throw, to which the cause is added
 * @param takeBack undoes the command, in case it was carried out; or the same command again, if it may be carried out
 * twice. Called at once when the command fails or is not answered in time, and again until it succeeds, `TRIES` times at
 * most, each with the same time limit. Called once more if an answer comes late, since a cluster may have carried out
 * the command meanwhile
 */
export async function withTimeout<T>(
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
      void untilDone(() => withTimeout(takeBack(), ms, unavailable), ms)
      command.then(takeBack).catch(() => {})
    }
    throw Object.assign(unavailable(), { cause })
  } finally {
    clearTimeout(timer)
  }
}

/** Calls `ask` until it succeeds, `TRIES` times at most, with a pause of `ms` milliseconds after each failure. */
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
