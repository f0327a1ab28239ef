/** So often is it looked, at equal intervals, whether to tell again. */
const LOOKS = 9

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
 * @param ms for how long, in milliseconds
 */
export function retold(tell: () => Promise<unknown>, teller: Teller, ms: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let looks = LOOKS
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
    const looking = setInterval(
      () => {
        if (--looks === 0) clearInterval(looking)
        if (failure !== undefined || teller.connection !== asked) attempt()
      },
      ms / (LOOKS + 1)
    )
    attempt()
  })
}

/** Whether it may be answered otherwise by a new connection. */
function isOfConnection(error: unknown): boolean {
  return !(error instanceof Error) || error.name !== 'ReplyError' || OF_PLACE.test(error.message)
}
