/** The filters and the rules that every send of a code passes. */
export const SEND_LIMITS = [
  'ip-attempts',
  'block-list',
  'wrong-codes',
  'ip',
  'ip-site',
  'ip-recipients',
  'recipient',
  'recipient-network',
  'number-range',
  'unverified',
  'send-failures',
  'in-flight',
  'account',
  'country',
  'service',
  'budget'
]
