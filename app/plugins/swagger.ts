import fastifySwagger from '@fastify/swagger'
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { stringify } from 'yaml'
import { limitTransform } from '../../plugin/index.js'
import type { Config } from '../config-schema.js'
import { LOCALES } from '../locales/locale.js'
import type { Policy } from '../policy-schema.js'
import { mayBeLeftOut } from '../schemas/left-out.js'

const ADMIN_KEY = {
  type: 'apiKey' as const,
  in: 'header',
  name: 'x-admin-key',
  description: 'The key of the operator, for the admin API.'
}

/** A header of every problem, including those that the plugin documents. */
const LANGUAGE = {
  description: `The language of the texts in the body: ${LOCALES.join(' or ')}.`,
  schema: { type: 'string' as const }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The function of @fastify/swagger that it would decorate as `swagger`. */
    writeDocument(): void
  }
}

type Document = ReturnType<FastifyInstance['swagger']>

/**
 * Serves the OpenAPI document at /openapi.json. It is written at the first request, and anew after a reload; so are its
 * texts: JSON takes the processor for 2 ms, YAML for 30.
 */
const swagger: FastifyPluginAsync<{ config: Pick<Config, 'ADMIN_KEY'> }> = async (fastify, { config }) => {
  let document = {} as Document
  let inJson: string | null = null
  let inYaml: string | null = null
  let written: Policy | null = null
  await fastify.register(fastifySwagger, {
    decorator: 'writeDocument',
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Verification-code API',
        description:
          'Sends verification codes, SMS and mail, each only as often as the rules of the policy allow. Every error is a problem document (RFC 9457).',
        version: '0.1.0',
        license: { name: 'MIT', url: 'https://spdx.org/licenses/MIT.html' }
      },
      servers: [{ url: '/', description: 'This server.' }],
      tags: [
        {
          name: 'captcha',
          description: 'Verification codes by SMS or mail. *Captcha* means such a code, not a puzzle.'
        },
        { name: 'messages', description: 'SMS and mail by template.' },
        { name: 'account', description: 'The account that sends the request.' },
        { name: 'admin', description: 'For operators, who have a key of their own.' },
        { name: 'operation', description: 'Health and metrics, for whoever runs the service.' },
        { name: 'development', description: 'Not available in production.' }
      ],
      components: {
        securitySchemes: {
          apiKey: {
            type: 'apiKey',
            in: 'header',
            name: 'x-api-key',
            description:
              'A key of the account. Under `/v1/captcha`, pages of an origin that the account lists need none.'
          },
          ...(config.ADMIN_KEY !== undefined && { adminKey: ADMIN_KEY })
        }
      }
    },
    transform: limitTransform(given => given),
    transformObject(documented) {
      if (!('openapiObject' in documented)) throw new Error('this is an OpenAPI 3 document')
      const { openapiObject } = documented
      for (const path of Object.values(openapiObject.paths ?? {})) {
        for (const operation of [path?.get, path?.post, path?.delete]) {
          const { 429: limited, 504: unknown } = operation?.responses ?? {}
          // The plugin has described it by the rules. Whatever sends (504) may meet the provider's limit, too.
          const codes = `FST_SEND_LIMIT_EXCEEDED${unknown ? ', SEND_LIMITED' : ''}`
          if (limited && 'description' in limited) {
            // The plugin has not described it, as no rule in force refuses; so @fastify/swagger has.
            if (limited.description === 'Default Response') delete operation?.responses?.[429]
            else limited.description += ` Codes: ${codes}.`
          }
          for (const answer of Object.values(operation?.responses ?? {})) {
            if (!('content' in answer) || answer.content?.['application/problem+json'] === undefined) continue
            answer.headers = { ...answer.headers, 'content-language': LANGUAGE }
          }
        }
        const body = path?.post?.requestBody
        if (body === undefined || !('content' in body)) continue
        if (mayBeLeftOut(body.content['application/json']?.schema)) body.required = false
      }
      document = openapiObject as Document
      // @fastify/swagger would cache for good what is returned here, unless it is null.
      return null as never
    },
    refResolver: {
      // Only schemas with an `$id` come here.
      buildLocalReference: ({ $id }) => String($id)
    }
  })
  const current = (options?: { yaml?: boolean }) => {
    // Every reload replaces the policy, so a new one means that there was a reload.
    if (written !== fastify.policy) {
      fastify.writeDocument()
      written = fastify.policy
      inJson = null
      inYaml = null
    }
    if (!options?.yaml) return document
    // Parsers refuse a document with many aliases: SnakeYAML (Java) one with more than 50.
    inYaml ??= stringify(document, { aliasDuplicateObjects: false })
    return inYaml
  }
  fastify.decorate('swagger', current as FastifyInstance['swagger'])
  fastify.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) => {
    const told = fastify.swagger()
    inJson ??= JSON.stringify(told)
    return reply.type('application/json; charset=utf-8').send(inJson)
  })
}

export default fp(swagger, { name: 'swagger' })
