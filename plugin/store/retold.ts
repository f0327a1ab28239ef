/** For so many time-outs it is told: a client takes several to find its connection silent, and then makes another. */
const TIMEOUTS = 15
/** So often in each of them is it looked, at equal intervals, whether to tell again. */
const LOOKS = 10

/** Answers that change when the client is with the right server, or the server is ready. */
const OF_PLACE = /\b(?:READONLY|MASTERDOWN|LOADING|BUSY|CLUSTERDOWN|MOVED)\b/

/** Who tells. */
export interface Teller {
  /** What the client talks through; undefined of a cluster, which has many. */
  readonly connection: unknown
  readonly closed: boolean
}

/**
 * Tells what may be told twice without harm, and again after its connection was lost: with
 * `autoResendUnfulfilledCommands: false` ioredis never settles what a lost connection has left unanswered.
 * @param timeout how long a call may take, in milliseconds; it is told for longer, while its caller no longer waits
 */
export function retold(tell: () => Promise<unknown>, teller: Teller, timeout: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let looks = TIMEOUTS * LOOKS
    let asked: unknown
    let failure: unknown
    const end = (settle: () => void) => {
      clearInterval(looking)
      settle()
    }
    const fail = (error: unknown) => {
      failure = error
      if (looks === 0 || teller.closed || !isOfConnection(error)) end(() => reject(error))
    }
    const attempt = () => {
      failure = undefined
      asked = teller.connection
      tell().then(() => end(resolve), fail)
    }
    const looking = setInterval(() => {
      if (--looks === 0 || teller.closed) clearInterval(looking)
      if (failure !== undefined || teller.connection !== asked) attempt()
    }, timeout / LOOKS)
    attempt()
  })
}

/** Whether it may be answered otherwise by a new connection. */
function isOfConnection(error: unknown): boolean {
  return !(error instanceof Error) || error.name !== 'ReplyError' || OF_PLACE.test(error.message)
}
