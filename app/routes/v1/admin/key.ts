import type { preParsingAsyncHookHandler } from 'fastify'
import { Keyring, sha256 } from '../../../accounts/keyring.js'
import { unauthorized } from '../../../problem.js'

/** A hook: lets in who sends the admin key in `x-admin-key`, before the body is read. */
export function adminOnly(key: string): preParsingAsyncHookHandler {
  const hash = sha256(key)
  const keys = new Keyring<string>()
  keys.add(hash, hash.slice(0, 8))
  return async request => {
    const given = request.headers['x-admin-key']
    if (typeof given !== 'string') throw refused('ADMIN_KEY_MISSING', 'The header x-admin-key is missing.')
    const actor = keys.find(given)
    if (actor === undefined) {
      request.server.audit({ event: 'admin-key', outcome: 'wrong' }, request)
      throw refused('ADMIN_KEY_WRONG', 'The key of the header x-admin-key is wrong.')
    }
    request.actor = actor
  }
}

const refused = (code: string, detail: string) =>
  unauthorized(code, detail, 'verification-api-admin', 'x-admin-key')
