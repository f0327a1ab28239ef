import swagger from '@fastify/swagger'
import Fastify, { type FastifyInstance } from 'fastify'
import * as zodProvider from 'fastify-type-provider-zod'
import t from 'tap'
import { z } from 'zod'

const ALL = ['200', '400', '403', '422', '429', '503']
const zod = (app: FastifyInstance) => app.post('/x', { schema: { body: z.object({}) } }, async () => 'sent')
const table: [
  name: string,
  build: (app: FastifyInstance, limited: (app: FastifyInstance) => Promise<void>) => unknown
][] = [
  [
    'after',
    async (app, limited) => {
      await limited(app)
      zod(app)
      app.get('/plain', async () => 'sent')
    }
  ],
  [
    'before',
    async (app, limited) => {
      zod(app)
      await limited(app)
    }
  ],
  [
    'beside',
    async (app, limited) => {
      await app.register(async child => limited(child))
      await app.register(async child => {
        zod(child)
      })
    }
  ]
]

// All apps are made before the plugin is loaded, as with @fastify/autoload and fastify-cli.
const apps = [...table, ...table].map(() => Fastify())

t.test(
  'routes with Zod in an app made before the plugin was loaded are documented without errors',
  async t => {
    const { limitPlugin, limitTransform } = await import('../../plugin/index.js')
    const { jsonSchemaTransform } = zodProvider
    const cases = [
      // Routes declared before the plugin was loaded cannot be seen.
      ...table
        .filter(([name]) => name !== 'before')
        .map(each => [...each, jsonSchemaTransform, ['200']] as const),
      ...table.map(each => [...each, limitTransform(jsonSchemaTransform), ALL] as const)
    ]
    for (const [name, build, transform, answers] of cases) {
      const app = apps.pop() as FastifyInstance
      t.teardown(() => app.close())
      app.setValidatorCompiler(zodProvider.validatorCompiler)
      await app.register(swagger, { openapi: { openapi: '3.1.0' }, transform })
      await build(app, async app => {
        await app.register(limitPlugin)
        const limit = { name: 'a', key: 'ip' as const, limits: [{ max: 1, window: '60s' }] }
        app.get('/bare', { config: { limit } }, async () => 'sent')
      })
      await app.ready()
      const document = () =>
        (app.swagger() as { paths?: Record<string, { get?: { responses?: object } }> }).paths
      t.doesNotThrow(document, name)
      t.same(Object.keys(document()?.['/bare']?.get?.responses ?? {}), answers, name)
    }
  }
)
