import { isReply } from './client.js'

/** So often is it looked in the first time-out, at equal intervals, whether to call again. */
const CHECKS = 10
/** And once in each later one: a client takes several to find its connection silent, and to make another. */
const LATER_CHECKS = 14

/** Replies that change when the client is with the right server, or the server is ready, has room, or can save. */
const TRANSIENT =
  /\b(?:READONLY|MASTERDOWN|NOREPLICAS|LOADING|BUSY|CLUSTERDOWN|MOVED|OOM|MISCONF)\b|cluster is down and readonly/

/** Who calls. */
export interface Caller {
  /** What the client talks through; undefined of a cluster, which has many. */
  readonly connection: unknown
  readonly closed: boolean
}

/**
 * Makes an idempotent call, and again after it failed or its connection was lost: with
 * `autoResendUnfulfilledCommands: false` ioredis never settles what a lost connection has left unanswered.
 * @param timeout how long who asked waits, in milliseconds. It is retried for fifteen times as long
 * @returns when it is done; rejects with the last failure before who asked is gone
 */
export function retry(call: () => Promise<unknown>, caller: Caller, timeout: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let checks = 0
    let checking: NodeJS.Timeout
    let calledOver: unknown
    let failure: unknown
    const done = () => {
      clearTimeout(checking)
      resolve()
    }
    const fail = (error: unknown) => {
      failure = error
      const final = caller.closed || !isTransient(error)
      if (final) clearTimeout(checking)
      if (final || checks >= CHECKS - 1) reject(error)
    }
    const attempt = () => {
      failure = undefined
      calledOver = caller.connection
      call().then(done, fail)
    }
    const check = () => {
      checks++
      if (checks < CHECKS + LATER_CHECKS && !caller.closed) wait()
      if (failure !== undefined || caller.connection !== calledOver) attempt()
    }
    const wait = () => {
      checking = setTimeout(check, checks < CHECKS ? timeout / CHECKS : timeout)
    }
    wait()
    attempt()
  })
}

/** Whether it may be answered otherwise by a new connection. */
function isTransient(error: unknown): boolean {
  return !isReply(error) || TRANSIENT.test(error.message)
}
