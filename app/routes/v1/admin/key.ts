import type { preParsingAsyncHookHandler } from 'fastify'
import { Keyring, sha256 } from '../../../accounts/keyring.js'
import { type ProblemError, problem } from '../../../problem.js'

/** A hook: lets in who sends the admin key in `x-admin-key`, before the body is read. */
export function adminOnly(key: string): preParsingAsyncHookHandler {
  const hash = sha256(key)
  const keys = new Keyring<string>()
  keys.add(hash, hash.toString('hex').slice(0, 8))
  return async request => {
    const given = request.headers['x-admin-key']
    if (typeof given !== 'string')
      throw unauthorized('ADMIN_KEY_MISSING', 'The header x-admin-key is missing.')
    const actor = keys.find(given)
    if (actor === undefined) {
      request.server.audit({ event: 'admin-key', outcome: 'wrong' }, request)
      throw unauthorized('ADMIN_KEY_WRONG', 'The key of the header x-admin-key is wrong.')
    }
    request.actor = actor
  }
}

/** A 401 names the way to get in (RFC 9110, section 11.6.1). */
function unauthorized(code: string, detail: string): ProblemError {
  const headers = { 'www-authenticate': 'ApiKey realm="verification-api-admin", header="x-admin-key"' }
  return Object.assign(problem(401, code, detail), { headers })
}
