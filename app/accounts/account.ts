import type { FastifyRequest } from 'fastify'
import { problem } from '../problem.js'

/** A client of the API that sends. */
export interface Account {
  readonly id: string
  /** How many messages the account may send in a calendar day. */
  readonly dailyQuota: number
  /** IANA time zone in which the day begins at midnight. */
  readonly timeZone: string
  /** The purposes that the account may use; all when left out. */
  readonly purposes?: readonly string[]
  /** The templates that the account may send; all when left out. */
  readonly templates?: readonly string[]
  /** The countries to whose numbers the account may send, of those of the policy; all of these when left out. */
  readonly countries?: readonly string[]
}

/** What an account has unless it says otherwise. */
export const ACCOUNT_DEFAULTS = { dailyQuota: 1_000, timeZone: 'Asia/Shanghai' }

/** The account of a request that `authenticate` or `identify` has admitted: each such request has one. */
export function accountOf({ account }: FastifyRequest): Account {
  if (account === null) throw new Error('no account')
  return account
}

/**
 * Checks that an account may use a purpose or template.
 * @throws a problem (403)
 */
export function mayUse({ id: account, ...may }: Account, what: 'purposes' | 'templates', name: string): void {
  if (may[what]?.includes(name) ?? true) return
  throw what === 'purposes'
    ? problem(403, 'PURPOSE_FORBIDDEN', 'The account {account} may not send for the purpose {purpose}.', {
        account,
        purpose: name
      })
    : problem(403, 'TEMPLATE_FORBIDDEN', 'The account {account} may not send the template {template}.', {
        account,
        template: name
      })
}
