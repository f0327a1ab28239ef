import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import Negotiator from 'negotiator'
import type { Config } from '../config-schema.js'
import { LOCALES, type Locale, lookUp } from '../locales/locale.js'
import { withHeader } from '../schemas/headers.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The language of problems for clients that ask for none of the known ones. */
    defaultLocale: Locale
  }
  interface FastifyRequest {
    /** The language of problems: the known one that `Accept-Language` prefers. */
    readonly locale: Locale
  }
}

/** The longest `Accept-Language` that is read. No person needs more, and ranking a full head takes milliseconds. */
const LONGEST = 1_000
const ACCEPT_LANGUAGE = `The languages that the caller prefers, for errors (${LOCALES.join(' or ')}) and for a message whose request has no \`locale\` in its body. A resend keeps the language of the code.`

const locale: FastifyPluginAsync<{ config: Pick<Config, 'LOCALE'> }> = async (fastify, { config }) => {
  fastify.addHook('onRoute', route => {
    if (route.url.startsWith('/v1/'))
      route.schema = withHeader(route.schema, 'accept-language', ACCEPT_LANGUAGE)
  })
  const byDefault = lookUp(config.LOCALE, LOCALES) ?? 'en'
  const known = [byDefault, ...LOCALES]
  fastify.decorate('defaultLocale', byDefault)
  fastify.decorateRequest('locale', {
    getter(this: FastifyRequest) {
      return localeOf(this, known)
    }
  })
}

/**
 * The best of the known languages for a request.
 * @param known the first is for clients that ask for none of them
 * @param given the tag that the body names; when left out, `Accept-Language` decides (RFC 9110, section 12.5.4)
 */
export function localeOf<L extends string>(
  request: Pick<FastifyRequest, 'headers'>,
  known: readonly L[],
  given?: string
): L {
  const byDefault = known[0] as L
  if (given !== undefined) return lookUp(given, known) ?? byDefault
  const asked = request.headers['accept-language']
  if (asked === undefined || asked.length > LONGEST) return byDefault
  const ranked = new Negotiator(request)
  // Each tag once, since the whole header is read for each `*`.
  for (const tag of new Set(ranked.languages())) {
    // `*` stands for any known language, as the other ranges rank them; with q=0, for none.
    const found = tag === '*' ? (ranked.language([...known]) as L | undefined) : lookUp(tag, known)
    if (found) return found
  }
  return byDefault
}

export default fp(locale, { name: 'locale' })
