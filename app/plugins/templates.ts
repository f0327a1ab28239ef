import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'
import { loadTemplates, type Templates } from '../templates/templates.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The words of messages. */
    templates: Templates
  }
}

const templates: FastifyPluginAsync = async fastify => {
  fastify.decorate('templates', loadTemplates())
}

export default fp(templates, { name: 'templates' })
