import type { preParsingAsyncHookHandler } from 'fastify'
import { sameText } from '../../../keyed-hash.js'
import { unauthorized } from '../../../problem.js'
import { sha256 } from '../../../sha256.js'

/** A hook that admits requests with the admin key in `x-admin-key`, before the body is read. */
export function adminOnly(key: string): preParsingAsyncHookHandler {
  const hash = sha256(key)
  return async request => {
    const given = request.headers['x-admin-key']
    if (typeof given !== 'string') throw refused('ADMIN_KEY_MISSING', 'The header x-admin-key is missing.')
    if (!sameText(sha256(given), hash)) {
      request.server.audit({ event: 'admin-key', outcome: 'wrong' }, request)
      throw refused('ADMIN_KEY_WRONG', 'The key of the header x-admin-key is wrong.')
    }
    request.actor = hash.slice(0, 8)
  }
}

const refused = (code: string, detail: string) =>
  unauthorized(code, detail, 'verification-api-admin', 'x-admin-key')
