import rateLimit from '@fastify/rate-limit'
import Fastify, { type FastifyInstance, type RouteOptions } from 'fastify'
import t from 'tap'
import { errors, limitPlugin } from '../../plugin/index.js'
import { appOf, open } from '../helper/face.js'
import type { Teardown } from '../helper/teardown.js'

const rule = { name: 'a', key: 'ip' as const, limits: [{ max: 1, window: '60s' }] }
const limited = { config: { limit: rule } }
const attempts = { config: { limit: { ...rule, counts: 'attempts' as const } } }
const handler = async () => 'sent'
const replaceHooks = (route: RouteOptions) => {
  route.onRequest = async () => {}
}

const addToList = ({ config }: RouteOptions) => {
  if (Array.isArray(config?.limit)) config.limit.push('b')
}

const setLimit = (route: RouteOptions) => {
  route.config = { ...route.config, limit: { ...rule } }
}

const takeFromList = ({ config }: RouteOptions) => {
  if (Array.isArray(config?.limit)) config.limit.pop()
}

/** Builds an app. @returns the error with which it fails to start, if it does */
async function start(t: Teardown, build: (app: FastifyInstance) => unknown): Promise<Error | undefined> {
  const app = appOf(t)
  try {
    await build(app)
    await app.ready()
  } catch (error) {
    return error as Error
  }
}

t.test('a limited route that the plugin would not limit ends the start', async t => {
  const table: [name: string, route: string, build: (app: FastifyInstance) => unknown][] = [
    [
      'before the plugin',
      'GET /x',
      async app => {
        app.get('/x', limited, handler)
        await app.register(limitPlugin)
      }
    ],
    [
      'after it, in the same tick',
      'POST /x',
      app => {
        void app.register(limitPlugin)
        app.post('/x', limited, handler)
      }
    ],
    [
      'after a registration that failed, of which the app passes over the error',
      'GET /x',
      app => {
        app.register(limitPlugin, { timeout: 'soon' }).after(error => {
          t.ok(error)
          app.get('/x', limited, handler)
        })
      }
    ],
    [
      'before a registration that fails for it, of which the app passes over the error',
      'GET /x',
      app => {
        app.get('/x', limited, handler)
        app.register(limitPlugin).after(error => {
          t.ok(error)
        })
      }
    ],
    [
      'in a child that was loaded before',
      'PUT,PATCH /api/x',
      async app => {
        await app.register(
          async child => child.route({ method: ['PUT', 'PATCH'], url: '/x', ...limited, handler }),
          { prefix: '/api' }
        )
        await app.register(limitPlugin)
      }
    ],
    [
      'in a child of a child, registered in the same tick before',
      'GET /x',
      app => {
        void app.register(async child => {
          await child.register(async grandchild => grandchild.get('/x', limited, handler))
        })
        void app.register(limitPlugin)
      }
    ],
    [
      'above the plugin',
      'GET /x',
      async app => {
        await app.register(async child => {
          await child.register(limitPlugin)
        })
        app.get('/x', limited, handler)
      }
    ],
    [
      'beside the plugin',
      'GET /x',
      app => {
        void app.register(async child => {
          await child.register(limitPlugin)
          child.get('/y', limited, handler)
        })
        void app.register(async child => child.get('/x', limited, handler))
      }
    ],
    [
      'by a hook, before the plugin',
      'GET /x',
      async app => {
        app.addHook('onRoute', setLimit)
        app.get('/x', handler)
        await app.register(limitPlugin)
      }
    ],
    [
      'by a hook, after it in the same tick',
      'GET /x',
      app => {
        void app.register(limitPlugin)
        app.addHook('onRoute', setLimit)
        app.get('/x', handler)
      }
    ],
    [
      'by a hook, beside the plugin',
      'GET /x',
      app => {
        void app.register(async child => {
          await child.register(limitPlugin)
        })
        void app.register(async child => {
          child.addHook('onRoute', setLimit)
          child.get('/x', handler)
        })
      }
    ],
    [
      'beside the plugin, where something else is fastify.limit',
      'GET /x',
      app => {
        void app.register(async child => {
          await child.register(limitPlugin)
        })
        void app.register(async child => {
          child.decorate('limit' as 'version', '5')
          child.get('/x', limited, handler)
        })
      }
    ],
    [
      'after the plugin, in a child that was made before',
      'GET /x',
      async app => {
        let early: FastifyInstance | undefined
        await app.register(async child => {
          early = child
        })
        await app.register(limitPlugin)
        early?.get('/x', limited, handler)
      }
    ],
    [
      'by a hook that runs after the plugin',
      'GET /x',
      async app => {
        await app.register(limitPlugin)
        await app.register(async child => {
          child.addHook('onRoute', setLimit)
          child.get('/x', handler)
        })
      }
    ],
    [
      'by a hook that runs after the plugin, and adds to a list',
      'GET /x',
      async app => {
        await app.register(limitPlugin, { rules: [{ ...rule, name: 'b' }] })
        app.addHook('onRoute', addToList)
        app.get('/x', { config: { limit: [rule] } }, handler)
      }
    ],
    [
      'by a hook that runs after the plugin, and takes one from the list',
      'GET /x',
      async app => {
        await app.register(limitPlugin)
        app.addHook('onRoute', takeFromList)
        app.get('/x', { config: { limit: [rule, { ...rule, name: 'b' }] } }, handler)
      }
    ],
    [
      'whose handler a later hook replaces',
      'GET /x',
      async app => {
        await app.register(limitPlugin)
        app.addHook('onRoute', route => {
          route.handler = handler
        })
        app.get('/x', limited, handler)
      }
    ],
    [
      'whose onRequest a later hook replaces',
      'GET /x',
      async app => {
        await app.register(limitPlugin)
        app.addHook('onRoute', replaceHooks)
        app.get('/x', attempts, handler)
      }
    ],
    [
      'whose onRequest a later hook replaces, after a hook that wraps it',
      'GET /x',
      async app => {
        await app.register(limitPlugin)
        app.addHook('onRoute', route => {
          route.onRequest = [route.onRequest ?? []].flat()
        })
        app.addHook('onRoute', replaceHooks)
        app.get('/x', attempts, handler)
      }
    ],
    [
      'with a name that nobody has defined',
      'GET /x',
      async app => {
        app.get('/x', { config: { limit: 'whatever' } }, handler)
        await app.register(limitPlugin)
      }
    ]
  ]
  for (const [name, route, build] of table) {
    const error = await start(t, build)
    t.ok(error instanceof errors.RouteTooEarlyError, name)
    t.equal(
      error?.message,
      `${route} has config.limit, but was declared before the plugin was ready, or outside its scope, ` +
        'or got it from an onRoute hook that ran after the plugin, or lost its handler to one; ' +
        'await app.register(limitPlugin) first, in a scope that contains all limited routes, ' +
        'write the limit in the route, and let hooks wrap what is there'
    )
  }
})

t.test('a limited route before the plugin makes the registration of the plugin fail', async t => {
  const app = Fastify()
  app.get('/x', limited, handler)
  t.teardown(() => app.close())
  const registered = async () => {
    await app.register(limitPlugin)
  }
  await t.rejects(registered, { code: 'FST_SEND_LIMIT_ROUTE_TOO_EARLY' })
})

t.test('a request whose attempts were lost to a hook that replaces onRequest is answered 500', async t => {
  const { app } = await open(t)
  await app.register(rateLimit, { max: 1_000 })
  app.addHook('onRoute', replaceHooks)
  let sent = 0
  app.post('/x', attempts, async () => `${++sent}`)
  const { statusCode, body } = await app.inject({ method: 'POST', url: '/x' })
  t.equal(statusCode, 500)
  t.match(body, /FST_SEND_LIMIT_ROUTE_TOO_EARLY/)
  t.equal(sent, 0)
})

t.test('a limited websocket route whose plugin comes later ends the start', async t => {
  const build = async (app: FastifyInstance, first: boolean, socket: object = { websocket: true }) => {
    if (first) app.decorate('websocketServer', {})
    await app.register(limitPlugin)
    app.get('/x', { ...limited, ...socket } as object, handler)
  }
  for (const socket of [{ websocket: true }, { wsHandler: () => {} }])
    t.match(await start(t, app => build(app, false, socket)), {
      code: 'FST_SEND_LIMIT_OPTION',
      message: /^GET \/x: websocket: .* Register @fastify\/websocket before/
    })
  t.equal(await start(t, app => build(app, true)), undefined)
})

t.test('routes declared after the plugin, or where it is ready, are limited', async t => {
  const table: [name: string, build: (app: FastifyInstance) => unknown][] = [
    [
      'after the plugin was awaited',
      async app => {
        await app.register(limitPlugin)
        app.get('/x', limited, handler)
      }
    ],
    [
      'in a child registered in the same tick after',
      app => {
        void app.register(limitPlugin)
        void app.register(async child => child.get('/x', limited, handler))
      }
    ],
    [
      'in after()',
      app => {
        void app.register(limitPlugin).after(() => app.get('/x', limited, handler))
      }
    ],
    [
      'by a hook that ran before the plugin, and adds to a list',
      async app => {
        app.addHook('onRoute', addToList)
        await app.register(limitPlugin, { rules: [{ ...rule, name: 'b' }] })
        app.get('/x', { config: { limit: [rule] } }, handler)
      }
    ],
    [
      'where later hooks wrap them',
      async app => {
        await app.register(limitPlugin)
        app.addHook('onRoute', route => {
          const { handler, onRequest = [] } = route
          route.handler = function (request, reply) {
            return handler.call(this, request, reply)
          }
          route.onRequest = [onRequest, async () => {}].flat()
        })
        app.get('/x', limited, handler)
      }
    ],
    [
      'in two scopes, each with a plugin of its own',
      app => {
        for (const prefix of ['/a', '/b']) {
          const scope = async (child: FastifyInstance) => {
            await child.register(limitPlugin)
            child.get('/x', limited, handler)
          }
          void app.register(scope, { prefix: prefix === '/a' ? '' : prefix })
        }
      }
    ]
  ]
  for (const [name, build] of table) {
    const app = appOf(t)
    await build(app)
    t.same([(await app.inject('/x')).statusCode, (await app.inject('/x')).statusCode], [200, 429], name)
  }
})

t.test('routes without limits may be declared anywhere', async t => {
  const error = await start(t, async app => {
    app.get('/x', handler)
    app.get('/y', { config: { other: 1 } as object }, handler)
    await app.register(limitPlugin)
  })
  t.equal(error, undefined)
})

t.test('a second registration of the plugin fails', async t => {
  const twice = await start(t, async app => {
    await app.register(limitPlugin)
    await app.register(limitPlugin)
  })
  t.ok(twice instanceof errors.RegisteredError)
  t.match(twice?.message, /^fastify\.limit exists already; register the plugin once/)
  const child = await start(t, async app => {
    await app.register(limitPlugin)
    await app.register(async scope => {
      await scope.register(limitPlugin, { region: 'US' })
    })
  })
  t.ok(child instanceof errors.RegisteredError)
  const sameTick = await start(t, app => {
    void app.register(limitPlugin)
    void app.register(limitPlugin)
  })
  t.ok(sameTick instanceof errors.RegisteredError)
})

t.test('the registration fails where something else is fastify.limit', async t => {
  const error = await start(t, async app => {
    app.decorate('limit' as 'version', '5')
    await app.register(limitPlugin)
  })
  t.ok(error instanceof errors.RegisteredError)
  t.match(error?.message, /^fastify\.limit exists already.+ decorate nothing else under that name$/)
})
