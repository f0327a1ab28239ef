import { jsonOf, poster } from './senders/post.js'

/** How long it may take to find out whether a challenge was solved, in milliseconds. */
export const CHALLENGE_MS = 3_000

/** What may be wrong with a token. All else is a fault of the configuration, or of the provider. */
const OF_TOKEN = new Set([
  'already-seen-response',
  'expired-input-response',
  'invalid-input-response',
  'invalid-or-already-seen-response',
  'missing-input-response',
  'timeout-or-duplicate'
])

/**
 * Makes a function that asks a provider whether a token stands for a challenge that somebody has solved, by the
 * protocol of Turnstile, hCaptcha and reCAPTCHA v2 (siteverify). The provider accepts each token once.
 * @param ms how long it may take, in milliseconds
 * @returns a function that throws an Error, whose message may be logged, when the provider does not say
 */
export function siteverify(url: URL, secret: string, ms = CHALLENGE_MS): (token: string) => Promise<boolean> {
  const post = poster(url.protocol, ms)
  return async token => {
    const body = new URLSearchParams({ secret, response: token }).toString()
    const headers = {
      'content-type': 'application/x-www-form-urlencoded',
      'content-length': Buffer.byteLength(body)
    }
    const response = await post({ url, headers, body, signal: AbortSignal.timeout(ms) })
    const answer = await jsonOf<'success' | 'error-codes' | 'score'>(response)
    const { success, 'error-codes': codes, score } = answer
    if (success === true && response.statusCode === 200) {
      if (score === undefined) return true
      throw new Error('the provider tells a score (reCAPTCHA v3), not whether the challenge was solved')
    }
    const faults = Array.isArray(codes) ? codes.filter(code => !OF_TOKEN.has(code)) : []
    if (success === false && faults.length === 0) return false
    throw new Error(`the provider answers ${response.statusCode}: ${faults.filter(isCode).join(', ')}`)
  }
}

const isCode = (text: unknown) => /^[a-z-]{1,64}$/.test(String(text))
