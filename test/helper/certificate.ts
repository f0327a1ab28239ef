import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

/** The paths of a folder's certificate and key. */
export const certificateIn = (folder: string) => ({
  cert: join(folder, 'tls.pem'),
  key: join(folder, 'tls.key')
})

/** Makes a self-signed certificate by openssl. @param name its subject, as in `DNS:localhost` or `IP:127.0.0.1` */
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
