import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The certificate of who takes the messages, and its key. */
export const CERTIFICATE = 'tls.pem'
export const CERTIFICATE_KEY = 'tls.key'

/** Production as the manual has it, with an account for each key, which may send all that is measured. */
export function environmentOf(folder: string, keys: readonly string[]): NodeJS.ProcessEnv {
  const at = (name: string) => join(folder, name)
  const { PATH, HOME } = process.env
  const accounts = keys.map((key, i) => ({
    id: `account-${i}`,
    keys: [createHash('sha256').update(key).digest('hex')],
    dailyQuota: 1_000_000
  }))
  writeFileSync(at('accounts.json'), JSON.stringify(accounts))
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-batch'],
      ...['-subj', '/CN=bench', '-addext', 'subjectAltName=IP:127.0.0.1'],
      ...['-keyout', at(CERTIFICATE_KEY), '-out', at(CERTIFICATE)]
    ],
    { stdio: 'ignore' }
  )
  return {
    PATH,
    HOME,
    NODE_ENV: 'production',
    NODE_EXTRA_CA_CERTS: at(CERTIFICATE),
    LIMIT_SECRET: randomBytes(32).toString('hex'),
    ACCOUNTS_FILE: at('accounts.json'),
    AUDIT_LOG: at('audit.log'),
    BACKENDS: '127.0.0.1',
    SMS_SENDERS: 'webhook',
    WEBHOOK_SECRET: `whsec_${randomBytes(32).toString('base64')}`
  }
}
