import type { Rule } from '../../plugin/index.js'

const minute = (max: number) => [{ max, window: '60s' }]
const mailMinute: Rule = { name: 'mail-minute', key: { email: 'body.to' }, limits: minute(1) }

/**
 * The policy of the comparison: five rules with seven limits, and a rule with one limit in place of the mail's three.
 */
export const rules: Rule[] = [
  {
    name: 'content',
    key: { digest: [{ phone: 'body.phone' }, 'body.template', 'body.params'] },
    limits: minute(2)
  },
  { name: 'ip', key: 'ip', limits: minute(1) },
  { name: 'mobile', key: { phone: 'body.phone' }, limits: minute(1) },
  {
    name: 'mail',
    key: { email: 'body.to' },
    limits: [...minute(1), { max: 5, window: '1h' }, { max: 10, window: '24h' }]
  },
  { name: 'account', key: { value: 'request.account.id' }, limits: [{ max: 1000, per: 'day' }] },
  mailMinute
]
export const FIVE = ['content', 'ip', 'mobile', 'mail', 'account']
/** The nearest that limiters with one window for each key come to this. */
export const FOUR = ['content', 'ip', 'mobile', 'mail-minute']

/** The same four rules on plain values, which are not made canonical, as in other limiters. */
export const plainRules: Rule[] = FOUR.map((name, i) => ({
  name,
  key: { value: `body.v${i}` },
  limits: minute(i === 0 ? 2 : 1)
}))

/** A send. Sends of different numbers differ in every rule except `account`: 500 sends share an account. */
export interface Send {
  phone: string
  to: string
  ip: string
  account: string
  template: string
  params: { code: string }
}

export function sendOf(i: number): Send {
  return {
    phone: `138${pad(i, 8)}`,
    to: `user${pad(i, 8)}@example.com`,
    ip: addressOf(i),
    account: `account${pad(Math.floor(i / 500), 6)}`,
    template: 'login',
    params: { code: pad(i % 1e6, 6) }
  }
}

/** The values of a send by rule, as `fastify.limit` takes them. */
export function keysOf(names: readonly string[], send: Send): Record<string, unknown> {
  const all: Record<string, unknown> = {
    content: [send.phone, send.template, send.params],
    ip: send.ip,
    mobile: send.phone,
    mail: send.to,
    account: send.account,
    'mail-minute': send.to
  }
  return Object.fromEntries(names.map(name => [name, all[name]]))
}

/** The same values as text, one for each window, for other limiters. */
export function textsOf(send: Send): string[] {
  return [`${send.phone} ${send.template} ${send.params.code}`, send.ip, send.phone, send.to]
}

/** How many sends each of those windows, of a minute, admits. */
export const PEER_MAX = [2, 1, 1, 1]

export function addressOf(i: number): string {
  return `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`
}

export function pad(i: number, digits: number): string {
  return String(i).padStart(digits, '0')
}
