import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { strayNames } from '../accounts/file.js'
import { loadTemplates, type Templates } from '../templates/templates.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The words of messages. */
    templates: Templates
  }
}

/** @throws ConfigError when an account lists a template that is not there */
const templates: FastifyPluginAsync = async fastify => {
  const loaded = loadTemplates()
  const names = new Set([...Object.keys(loaded.offered('sms')), ...Object.keys(loaded.offered('mail'))])
  const [stray] = strayNames(fastify.accounts.listed, 'templates', [...names])
  if (stray !== undefined) throw stray
  fastify.decorate('templates', loaded)
}

export default fp(templates, { name: 'templates', dependencies: ['accounts'] })
