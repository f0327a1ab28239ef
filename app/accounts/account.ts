import { problem } from '../problem.js'

/** Who sends. */
export interface Account {
  readonly id: string
  /** How many messages a calendar day. */
  readonly dailyQuota: number
  /** IANA time zone whose midnight begins the day. */
  readonly timeZone: string
  /** What codes may be for; everything when left out. */
  readonly purposes?: readonly string[]
  /** Which templates may be sent; all when left out. */
  readonly templates?: readonly string[]
}

/** What an account has that says nothing else. */
export const ACCOUNT_DEFAULTS = { dailyQuota: 1_000, timeZone: 'Asia/Shanghai' }

/**
 * Holds what an account wants to send against what it may.
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
