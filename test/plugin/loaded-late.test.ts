import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'

t.test(
  'in an app made before the plugin was loaded, every limited route is limited or answers 500',
  async t => {
    const app = Fastify()
    t.teardown(() => app.close())
    const { limitPlugin } = await import('../../plugin/index.js')
    const key = 'ip' as const
    const limited = { config: { limit: { name: 'a', key, limits: [{ max: 1, window: '60s' }] } } }
    const handler = async () => 'sent'
    app.get('/early', limited, handler)
    app.get('/free', handler)
    app.get('/two', { ...limited, constraints: { host: 'b.test' } }, handler)
    await app.register(async sibling => sibling.get('/sibling', limited, handler))
    await app.register(async scope => {
      await scope.register(limitPlugin)
      await fill(scope)
    })
    app.get('/outside', limited, handler)

    async function fill(app: FastifyInstance): Promise<void> {
      app.get('/two', { ...limited, constraints: { host: 'a.test' } }, handler)
      await app.register(
        async child => {
          child.get('/', limited, handler)
          child.route({ method: ['POST', 'PUT'], url: '/:id?', ...limited, handler })
          child.get('/*', { ...limited, constraints: { host: 'a.test' } }, handler)
        },
        { prefix: '/late' }
      )
    }
    const table: [method: 'GET' | 'HEAD' | 'POST' | 'PUT', url: string, status: number][] = [
      ['GET', '/early', 500],
      ['HEAD', '/early', 500],
      ['GET', '/sibling', 500],
      ['GET', '/outside', 500],
      ['GET', '/two', 200],
      ['GET', '/two', 429],
      ['GET', '/free', 200],
      ['GET', '/nowhere', 404],
      ['GET', '/late', 200],
      ['GET', '/late/', 429],
      ['HEAD', '/late/', 429],
      ['POST', '/late', 200],
      ['PUT', '/late/5', 429],
      ['GET', '/late/x/y', 200],
      ['HEAD', '/late/x', 429]
    ]
    for (const [method, url, status] of table) {
      const reply = await app.inject({ method, url, headers: { host: 'a.test' } })
      t.equal(reply.statusCode, status, `${method} ${url}`)
      if (status === 500 && method === 'GET')
        t.match(reply.json(), { code: 'FST_SEND_LIMIT_ROUTE_TOO_EARLY' })
    }
    t.equal((await app.inject({ url: '/two', headers: { host: 'b.test' } })).statusCode, 500)
  }
)
