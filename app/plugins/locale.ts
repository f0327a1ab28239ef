import accepts from '@fastify/accepts'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.js'
import { LOCALES, type Locale, lookUp } from '../locales/locale.js'
import { problem } from '../problem.js'
import { withHeader } from '../schemas/headers.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The language of answers to those who ask for none that is there. */
    defaultLocale: Locale
  }
  interface FastifyRequest {
    /** The language that `Accept-Language` (RFC 9110, section 12.5.4) asks for first, of those that are there. */
    readonly locale: Locale
  }
}

/** No person asks for more; to rank what fits into a head takes milliseconds. */
const LONGEST = 1_000
const ACCEPT_LANGUAGE = `Language of problems, and of first messages whose body names none: ${LOCALES.join(' or ')}`

const locale: FastifyPluginAsync<{ config: Pick<Config, 'LOCALE'> }> = async (fastify, { config }) => {
  await fastify.register(accepts)
  fastify.addHook('onRoute', route => {
    if (route.url.startsWith('/v1/'))
      route.schema = withHeader(route.schema, 'accept-language', ACCEPT_LANGUAGE)
  })
  const byDefault = [config.LOCALE, ...LOCALES]
  fastify.decorate('defaultLocale', config.LOCALE)
  fastify.decorateRequest('locale', {
    getter(this: FastifyRequest) {
      const asked = this.headers['accept-language']
      if (asked !== undefined && asked.length > LONGEST) return config.LOCALE
      // Each once: for each `*` the whole header is read.
      for (const tag of new Set(this.languages())) {
        // Any that is there, as the other ranges rank them: with q=0, none.
        const found = tag === '*' ? (this.language(byDefault) as Locale | false) : lookUp(tag)
        if (found) return found
      }
      return config.LOCALE
    }
  })
}

/**
 * The language of a message.
 * @param given as a body names it; what `Accept-Language` asks for when left out
 * @throws a problem (422) when it is not there
 */
export function localeOf(request: Pick<FastifyRequest, 'locale'>, given?: string): Locale {
  if (given === undefined) return request.locale
  const found = lookUp(given)
  if (found !== undefined) return found
  throw problem(422, 'LOCALE_UNKNOWN', 'There are no texts in the language {locale}. Use one of: {known}.', {
    locale: given,
    known: LOCALES
  })
}

export default fp(locale, { name: 'locale' })
