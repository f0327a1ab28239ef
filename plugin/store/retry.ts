import { isTransient } from './redis-errors.js'

/** How often it is checked during the first `timeout`, at equal intervals, whether to call again. */
const CHECKS = 10
/** How often after that, once per `timeout`: a client may take several to notice a silent connection and replace it. */
const LATER_CHECKS = 14

/** The caller of `retry`. */
export interface Caller {
  /** The client's connection; undefined for a cluster, whose client has many. */
  readonly connection: unknown
  readonly closed: boolean
}

/**
 * Makes an idempotent call, and makes it again after it failed or its connection was lost: with
 * `autoResendUnfulfilledCommands: false` ioredis never settles a call that a lost connection has left unanswered.
 * @param timeout how long the caller waits, in milliseconds; the call is retried for fifteen times as long
 * @param late called when a call has succeeded after the caller has stopped waiting
 * @returns resolves once a call has succeeded; rejects with the last failure before the caller stops waiting
 */
export function retry(
  call: () => Promise<unknown>,
  caller: Caller,
  timeout: number,
  late?: () => void
): Promise<void> {
  return new Promise((resolve, reject) => {
    let rejected = false
    let checks = 0
    let checking: NodeJS.Timeout
    let calledOver: unknown
    let failure: unknown
    const done = () => {
      clearTimeout(checking)
      resolve()
      if (rejected) late?.()
    }
    const fail = (error: unknown) => {
      failure = error
      const final = caller.closed || !isTransient(error)
      if (final) clearTimeout(checking)
      rejected ||= final || checks >= CHECKS - 1
      if (rejected) reject(error)
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
