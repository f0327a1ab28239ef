import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

/** Where the certificate of a folder is, and its key. */
export const certificateIn = (folder: string) => ({
  cert: join(folder, 'tls.pem'),
  key: join(folder, 'tls.key')
})

/** Makes a certificate of its own signing, by openssl. @param name whose, as in `DNS:localhost` or `IP:127.0.0.1` */
export function makeCertificate(folder: string, name: string) {
  const { cert, key } = certificateIn(folder)
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-batch'],
      ...['-subj', `/CN=${name.replace(/^\w+:/, '')}`, '-addext', `subjectAltName=${name}`],
      ...['-keyout', key, '-out', cert]
    ],
    { stdio: 'ignore' }
  )
  return { cert, key }
}
