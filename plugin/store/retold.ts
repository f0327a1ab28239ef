import { isReply } from './client.js'

/** So often is it looked in the first time-out, at equal intervals, whether to tell again. */
const LOOKS = 10
/** And once in each later one: a client takes several to find its connection silent, and to make another. */
const LATER_LOOKS = 14

/** Answers that change when the client is with the right server, or the server is ready, has room, or can save. */
const OF_PLACE =
  /\b(?:READONLY|MASTERDOWN|NOREPLICAS|LOADING|BUSY|CLUSTERDOWN|MOVED|OOM|MISCONF)\b|cluster is down and readonly/

/** Who tells. */
export interface Teller {
  /** What the client talks through; undefined of a cluster, which has many. */
  readonly connection: unknown
  readonly closed: boolean
}

/**
 * Tells what may be told twice without harm, and again after its connection was lost: with
 * `autoResendUnfulfilledCommands: false` ioredis never settles what a lost connection has left unanswered.
 * @param timeout how long its caller waits, in milliseconds. It is told for fifteen times as long
 * @returns when it is done; rejects with the last failure before the caller is gone
 */
export function retold(tell: () => Promise<unknown>, teller: Teller, timeout: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let looks = 0
    let looking: NodeJS.Timeout
    let asked: unknown
    let failure: unknown
    const done = () => {
      clearTimeout(looking)
      resolve()
    }
    const fail = (error: unknown) => {
      failure = error
      const final = teller.closed || !isOfConnection(error)
      if (final) clearTimeout(looking)
      if (final || looks >= LOOKS - 1) reject(error)
    }
    const attempt = () => {
      failure = undefined
      asked = teller.connection
      tell().then(done, fail)
    }
    const look = () => {
      looks++
      if (looks < LOOKS + LATER_LOOKS && !teller.closed) wait()
      if (failure !== undefined || teller.connection !== asked) attempt()
    }
    const wait = () => {
      looking = setTimeout(look, looks < LOOKS ? timeout / LOOKS : timeout)
    }
    wait()
    attempt()
  })
}

/** Whether it may be answered otherwise by a new connection. */
function isOfConnection(error: unknown): boolean {
  return !isReply(error) || OF_PLACE.test(error.message)
}
