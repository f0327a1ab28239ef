import { createHash, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeCertificate } from '../../test/helper/certificate.js'

/**
 * The environment of production as the manual describes it, with an account for each key that may send all that is
 * measured.
 */
export function environmentOf(folder: string, keys: readonly string[]): NodeJS.ProcessEnv {
  const at = (name: string) => join(folder, name)
  const { PATH, HOME } = process.env
  const accounts = keys.map((key, i) => ({
    id: `account-${i}`,
    keys: [createHash('sha256').update(key).digest('hex')],
    dailyQuota: 1_000_000
  }))
  writeFileSync(at('accounts.json'), JSON.stringify(accounts))
  // The certificate of the webhook that takes the messages.
  const { cert } = makeCertificate(folder, 'IP:127.0.0.1')
  return {
    PATH,
    HOME,
    NODE_ENV: 'production',
    NODE_EXTRA_CA_CERTS: cert,
    LIMIT_SECRET: randomBytes(32).toString('hex'),
    ACCOUNTS_FILE: at('accounts.json'),
    AUDIT_LOG: at('audit.log'),
    BACKENDS: '127.0.0.1',
    SMS_SENDERS: 'webhook',
    WEBHOOK_SECRET: `whsec_${randomBytes(32).toString('base64')}`
  }
}
