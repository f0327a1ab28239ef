/** What every code that is sent counts for. */
export const SEND_LIMITS = [
  'block-list',
  'ip',
  'ip-site',
  'ip-recipients',
  'recipient',
  'recipient-network',
  'number-range',
  'in-flight',
  'account',
  'service'
]
