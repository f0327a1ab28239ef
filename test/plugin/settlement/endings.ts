import { once } from 'node:events'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyError, FastifyReply, RouteHandlerMethod } from 'fastify'
import type { Scene } from './scene.js'

/** An ending of a handler, and what must follow from it. */
export interface Ending {
  name: string
  /** Declares the route and what surrounds it. */
  stage(scene: Scene): unknown
  method?: 'GET' | 'HEAD'
  status: number
  /** What the `sends` rules count afterwards. */
  send: 0 | 1
  /** What the `failures` rule counts afterwards. */
  wrong: 0 | 1
  /** The handler ends after its reply; this is counted in between. */
  late?: Pick<Ending, 'send' | 'wrong'>
}

type Expected = Omit<Ending, 'name' | 'stage' | 'method'>

const sent: Expected = { status: 202, send: 1, wrong: 0 }
const refused: Expected = { status: 422, send: 0, wrong: 1 }
const failed: Expected = { status: 500, send: 0, wrong: 0 }
const body = { ok: true }

/** A route whose handler ends like this. */
function route(name: string, expected: Expected, handler: (scene: Scene) => RouteHandlerMethod): Ending {
  return { name, stage: scene => scene.route(handler(scene)), ...expected }
}

function broken(props: object = {}): Error {
  return Object.assign(new Error('broken'), props)
}

/** The same status, answered in each style that Fastify knows. */
function styles(status: number, expected: Omit<Expected, 'status'>): Ending[] {
  const outcome = { status, ...expected }
  return [
    route(`${status} by return`, outcome, () => async (_, reply) => {
      reply.code(status)
      return body
    }),
    route(`${status} by return of a handler that is not async`, outcome, () => (_, reply) => {
      reply.code(status)
      return body as never
    }),
    route(`${status} by return after some work`, outcome, scene => async (_, reply) => {
      await sleep(1)
      scene.look()
      reply.code(status)
      return body
    }),
    route(`${status} by return reply.send`, outcome, () => async (_, reply) => reply.code(status).send(body)),
    route(`${status} by return reply.send after some work`, outcome, scene => async (_, reply) => {
      await sleep(1)
      scene.look()
      return reply.code(status).send(body)
    }),
    route(`${status} by await reply.send`, outcome, () => async (_, reply) => {
      await reply.code(status).send(body)
    }),
    route(`${status} by reply.send, at once`, outcome, () => (_, reply) => {
      reply.code(status).send(body)
    }),
    route(`${status} by reply.send, later`, outcome, scene => (_, reply) => {
      setTimeout(() => {
        scene.look()
        reply.code(status).send(body)
      }, 1)
    }),
    route(`${status} by reply.send, later, the reply returned`, outcome, scene => (_, reply) => {
      setTimeout(() => {
        scene.look()
        reply.code(status).send(body)
      }, 1)
      return reply
    }),
    route(
      `${status} by reply.send, later, the reply returned by an async handler`,
      outcome,
      scene => async (_, reply) => {
        setTimeout(() => {
          scene.look()
          reply.code(status).send(body)
        }, 1)
        return reply
      }
    ),
    route(
      `${status} by reply.send, after which the handler looks at reply.sent`,
      outcome,
      () => async (_, reply) => {
        reply.code(status).send(body)
        if (!reply.sent) reply.code(201)
        return reply
      }
    ),
    route(`${status} by reply.raw`, outcome, () => async (_, { raw }) => {
      raw.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }),
    route(`${status} by reply.send, and then another`, outcome, () => (_, reply) => {
      reply.code(status).send(body)
      reply.code(203).send('too late')
    }),
    {
      name: `${status} by reply.send, at once, through an asynchronous onSend hook`,
      stage(scene) {
        scene.app.addHook('onSend', async (_request, _reply, payload) => {
          await sleep(1)
          return payload
        })
        scene.route((_, reply) => {
          reply.code(status).send(body)
        })
      },
      ...outcome
    }
  ]
}

const unlike = {
  // biome-ignore lint/suspicious/noThenProperty: whether a handler returned a promise is found out by its then
  get then(): never {
    throw broken()
  }
}

const errors: Ending[] = [
  route('a throw', failed, () => () => {
    throw broken()
  }),
  route('a rejection', failed, () => async () => {
    throw broken()
  }),
  route('a rejection after some work', failed, scene => async () => {
    await sleep(1)
    scene.look()
    throw broken()
  }),
  route('an error that names a 4xx status', refused, () => async () => {
    throw broken({ statusCode: 422 })
  }),
  route('an error that names a 4xx status as a text', refused, () => async () => {
    throw broken({ statusCode: '422' })
  }),
  route('an error that names a 5xx status', { ...failed, status: 503 }, () => () => {
    throw broken({ statusCode: 503 })
  }),
  ...([400, 499, 599] as const).map(status =>
    route(
      `an error that names ${status}`,
      { ...(status < 500 ? refused : failed), status },
      () => async () => {
        throw broken({ statusCode: status })
      }
    )
  ),
  route('an error that names a good status', failed, () => async () => {
    throw broken({ statusCode: 200 })
  }),
  route('an error that names two statuses: the client gets statusCode', refused, () => async () => {
    throw broken({ statusCode: 422, status: 502 })
  }),
  route('an error whose statusCode is no error status', refused, () => async () => {
    throw broken({ statusCode: 200, status: 422 })
  }),
  route('an error that names no status of HTTP, after a 4xx was set', refused, () => async (_, reply) => {
    reply.code(422)
    throw broken({ statusCode: 1_000 })
  }),
  route('an error after a 4xx status was set', refused, () => async (_, reply) => {
    reply.code(422)
    throw broken()
  }),
  route('a thrown value that is no error', failed, () => async () => {
    throw 'nothing'
  }),
  route('an error whose statusCode is no number', { ...failed, status: 200 }, () => async () => {
    throw broken({ statusCode: Symbol('status') })
  }),
  route('a returned value whose then cannot be read', failed, () => () => unlike as never),
  route('a returned error', failed, () => async () => broken()),
  route('an error returned by a handler that is not async', failed, () => () => broken() as never),
  route('a returned error with a 4xx status', refused, () => async () => broken({ statusCode: 422 })),
  route('reply.send of an error', failed, () => (_, reply) => {
    reply.send(broken())
  }),
  route('return reply.send of an error', failed, () => async (_, reply) => reply.send(broken())),
  route('reply.send of an error, later', failed, scene => (_, reply) => {
    setTimeout(() => {
      scene.look()
      reply.send(broken())
    }, 1)
  }),
  route(
    'reply.send of an error under a 4xx status',
    refused,
    () => async (_, reply) => reply.code(422).send(broken())
  ),
  route(
    'an AbortError, which leaves unclear whether the message was sent',
    { ...failed, send: 1, wrong: 1 },
    () => async () => {
      throw new DOMException('aborted', 'AbortError')
    }
  ),
  route(
    'a TimeoutError, which leaves it unclear as well',
    { ...failed, send: 1, wrong: 1 },
    () => async () => {
      await fetchLike(AbortSignal.timeout(1))
    }
  ),
  route(
    'a TimeoutError by reply.send, then a throw: it stays unclear',
    { ...failed, send: 1, wrong: 1, late: { send: 1, wrong: 1 } },
    scene => async (_, reply) => {
      reply.send(new DOMException('no answer', 'TimeoutError'))
      await outlive(scene)
      throw broken()
    }
  ),
  route(
    'an answer, then a throw',
    { ...failed, status: 202, late: { send: 1, wrong: 0 } },
    scene => async (_, reply) => {
      reply.code(202).send(body)
      await outlive(scene)
      throw broken()
    }
  ),
  route(
    'an answer whose reply the handler has called then on, then a throw',
    { ...failed, status: 202, late: { send: 1, wrong: 0 } },
    scene => async (_, reply) => {
      reply.then(
        () => {},
        () => {}
      )
      reply.code(202).send(body)
      await outlive(scene)
      throw broken()
    }
  ),
  route(
    'an answer, then a throw of nothing',
    { ...failed, status: 202, late: { send: 1, wrong: 0 } },
    scene => async (_, reply) => {
      reply.code(202).send(body)
      await outlive(scene)
      throw undefined
    }
  ),
  route(
    '202 by reply.send, later, and a refund() right after it, which is too late',
    sent,
    scene => (_, reply) => {
      setTimeout(() => {
        scene.look()
        reply.code(202).send(body)
        void reply.limit?.refund()
      }, 1)
    }
  ),
  route('an answer, then more work', { ...sent, late: { send: 1, wrong: 0 } }, scene => async (_, reply) => {
    reply.code(202).send(body)
    await outlive(scene)
  }),
  route(
    'an answer of 502, then more work',
    { ...failed, status: 502, late: { send: 0, wrong: 0 } },
    scene => async (_, reply) => {
      reply.code(502).send(body)
      await outlive(scene)
    }
  ),
  route(
    'an answer later, which the handler waits for, then a throw',
    { ...failed, status: 202, late: { send: 1, wrong: 0 } },
    scene => async (_, reply) => {
      setTimeout(() => reply.code(202).send(body), 1)
      await reply
      await scene.onward
      throw broken()
    }
  ),
  route(
    'an answer later, which the handler waits for, then refund()',
    { ...failed, status: 202, late: { send: 1, wrong: 0 } },
    scene => async (_, reply) => {
      setTimeout(() => reply.code(202).send(body), 1)
      await reply
      await scene.onward
      await reply.limit?.refund()
    }
  ),
  route(
    'an answer of 502 that the handler waits for, then more work',
    { ...failed, status: 502, late: { send: 0, wrong: 0 } },
    scene => async (_, reply) => {
      await reply.code(502).send(body)
      await outlive(scene)
    }
  )
]

async function fetchLike(signal: AbortSignal): Promise<void> {
  await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
}

/** Handlers that send 202 in each style, under surroundings that spoil the reply. */
function spoilt(
  name: string,
  spoil: (scene: Scene) => void,
  spoilReply: (reply: FastifyReply) => unknown = () => body
): Ending[] {
  const styles: [string, RouteHandlerMethod][] = [
    [
      'return',
      async (_, reply) => {
        const payload = spoilReply(reply.code(202))
        return payload
      }
    ],
    ['return reply.send', async (_, reply) => reply.code(202).send(spoilReply(reply))],
    [
      'reply.send, later',
      (_, reply) => {
        setTimeout(() => reply.code(202).send(spoilReply(reply)), 1)
      }
    ]
  ]
  return styles.map(([style, handler]) => ({
    name: `202 by ${style}, ${name}`,
    stage(scene) {
      spoil(scene)
      scene.route(handler)
    },
    status: 500,
    send: 1,
    wrong: 0
  }))
}

const surroundings: Ending[] = [
  ...[
    async () => {
      throw broken()
    },
    () => {
      throw broken()
    },
    (_: unknown, reply: FastifyReply) => void reply.send(broken())
  ].map((handler, i) => ({
    name: `an error, and an error handler that answers 200 (${i + 1})`,
    stage(scene: Scene) {
      scene.app.setErrorHandler((_error: FastifyError, _request, reply) => reply.code(200).send(body))
      scene.route(handler as RouteHandlerMethod)
    },
    status: 200,
    send: 0 as const,
    wrong: 0 as const
  })),
  {
    name: 'a throw without a status, and an error handler that answers 401',
    stage(scene) {
      scene.app.setErrorHandler((_error: FastifyError, _request, reply) => reply.code(401).send(body))
      scene.route(() => {
        throw broken()
      })
    },
    status: 401,
    send: 0,
    wrong: 0
  },
  {
    name: 'a throw, and an asynchronous error handler that answers 200',
    stage(scene) {
      scene.app.setErrorHandler(async (_error: FastifyError, _request, reply) => {
        await sleep(1)
        reply.code(200)
        return body
      })
      scene.route(() => {
        throw broken()
      })
    },
    status: 200,
    send: 0,
    wrong: 0
  },
  ...spoilt('a serializer that throws', scene =>
    scene.app.setReplySerializer(() => {
      throw broken()
    })
  ),
  ...spoilt(
    'an object that cannot be serialized',
    () => {},
    () => ({ number: 1n })
  ),
  ...spoilt(
    'a preSerialization hook that throws',
    scene =>
      void scene.app.addHook('preSerialization', async () => {
        throw broken()
      })
  ),
  ...spoilt(
    'an onSend hook that throws',
    scene =>
      void scene.app.addHook('onSend', async () => {
        throw broken()
      })
  ),
  ...spoilt(
    'an onSend hook that throws later',
    scene =>
      void scene.app.addHook('onSend', async () => {
        await sleep(1)
        throw broken()
      })
  ),
  ...spoilt(
    'an onSend hook that answers 502',
    scene =>
      void scene.app.addHook('onSend', async (_request, reply, payload) => {
        reply.code(502)
        return payload
      })
  ).map(ending => ({ ...ending, status: 502 })),
  ...unsendable(202, { status: 500, send: 1, wrong: 0 }),
  ...unsendable(502, failed),
  ...unsendable(422, { ...refused, status: 500 }),
  {
    name: 'a wrapper added later, which makes an answer of an error',
    stage(scene) {
      wrapped(scene, async run => {
        try {
          return await run()
        } catch {
          return body
        }
      })
      scene.route(async () => {
        throw broken()
      })
    },
    status: 200,
    send: 0,
    wrong: 0
  },
  {
    name: 'a wrapper added later, which makes an error of an answer',
    stage(scene) {
      wrapped(scene, async run => {
        await run()
        throw broken()
      })
      scene.route(async () => body)
    },
    status: 500,
    send: 1,
    wrong: 0
  },
  {
    name: 'a time-out of a hook, which keeps before it answers',
    stage(scene) {
      scene.app.addHook('onRequest', async (_, reply) => {
        const cut = setInterval(() => {
          if (!scene.decision) return
          clearInterval(cut)
          reply.limit?.keep()
          reply.code(503).send(body)
        }, 1)
      })
      scene.route(async () => {
        await outlive(scene)
        return body
      })
    },
    status: 503,
    send: 1,
    wrong: 1,
    late: { send: 1, wrong: 1 }
  },
  {
    name: 'a preHandler that answers first',
    stage(scene) {
      scene.route(async () => body, { preHandler: async (_, reply) => reply.code(200).send(body) })
    },
    status: 200,
    send: 0,
    wrong: 0
  },
  {
    name: 'a preHandler that throws',
    stage(scene) {
      scene.route(async () => body, {
        preHandler: async () => {
          throw broken()
        }
      })
    },
    ...failed
  }
]

// Such a `reply.send` throws in the handler, since an object cannot be sent as text.
function unsendable(status: number, expected: Expected): Ending[] {
  return [
    route(`${status} by return, which cannot be sent`, expected, () => async (_, reply) => {
      reply.code(status).type('text/plain')
      return body
    }),
    route(
      `${status} by return reply.send, which throws`,
      expected,
      () => async (_, reply) => reply.code(status).type('text/plain').send(body)
    ),
    route(`${status} by reply.send, which throws at once`, expected, () => (_, reply) => {
      reply.code(status).type('text/plain').send(body)
    })
  ]
}

function wrapped(scene: Scene, wrapper: (run: () => unknown) => unknown): void {
  scene.app.addHook('onRoute', options => {
    const { handler } = options
    options.handler = function (request, reply) {
      return wrapper(() => handler.call(this, request, reply))
    }
  })
}

const bySettling: Ending[] = [
  route('keep(), then 502', { status: 502, send: 1, wrong: 1 }, () => async (_, reply) => {
    reply.limit?.keep()
    return reply.code(502).send(body)
  }),
  route('keep(), then a throw', { ...failed, send: 1, wrong: 1 }, () => async (_, reply) => {
    reply.limit?.keep()
    throw broken()
  }),
  route('refund(), then 200', { status: 200, send: 0, wrong: 0 }, () => async (_, reply) => {
    await reply.limit?.refund()
    return body
  }),
  route('refund(), not waited for, then 200', { status: 200, send: 0, wrong: 0 }, () => (_, reply) => {
    void reply.limit?.refund()
    reply.send(body)
  }),
  route('refund(), then a throw', failed, () => async (_, reply) => {
    await reply.limit?.refund()
    throw broken()
  }),
  route('keep(), then refund(), then 502', { status: 502, send: 1, wrong: 1 }, () => async (_, reply) => {
    reply.limit?.keep()
    await reply.limit?.refund()
    return reply.code(502).send(body)
  }),
  route('refund(), then keep()', { status: 200, send: 0, wrong: 0 }, () => async (_, reply) => {
    await reply.limit?.refund()
    reply.limit?.keep()
    return body
  }),
  route('refund() twice', { status: 200, send: 0, wrong: 0 }, () => async (_, reply) => {
    await Promise.all([reply.limit?.refund(), reply.limit?.refund()])
    return body
  })
]

/** A handler under Fastify's `handlerTimeout` that goes on after it. */
function outlived(
  name: string,
  expected: Pick<Expected, 'send' | 'wrong'>,
  ending: (reply: FastifyReply) => unknown
): Ending[] {
  const styles: [string, (scene: Scene) => RouteHandlerMethod][] = [
    [
      'async',
      scene => async (_, reply) => {
        await outlive(scene)
        return ending(reply)
      }
    ],
    [
      'async, the reply returned',
      scene => async (_, reply) => {
        void outlive(scene).then(() => reply.send(ending(reply)))
        return reply
      }
    ],
    [
      'callback',
      scene => (_, reply) => {
        void outlive(scene).then(() => reply.send(ending(reply)))
      }
    ]
  ]
  // Nobody can catch what is thrown in a callback.
  const throws = name.includes('throw')
  return [false, true].flatMap(own =>
    styles
      .filter(([style]) => !throws || style === 'async')
      .map(([style, handler]) => ({
        name: `handlerTimeout, then ${name} (${style}${own ? ', an error handler of the app' : ''})`,
        stage(scene: Scene) {
          if (own)
            scene.app.setErrorHandler((_error: FastifyError, _request, reply) => reply.code(504).send(body))
          scene.route(handler(scene), { handlerTimeout: scene.handlerTimeout })
        },
        status: own ? 504 : 503,
        late: { send: 1, wrong: 1 } as const,
        ...expected
      }))
  )
}

// Waits after the reply until the test has read what is counted by then.
async function outlive(scene: Scene): Promise<void> {
  await scene.onward
  scene.look()
  await Promise.all(scene.looks)
}

const timeouts: Ending[] = [
  ...outlived('the message leaves', { send: 1, wrong: 1 }, () => body),
  ...outlived('a 4xx, which the client does not get', { send: 1, wrong: 1 }, reply => {
    reply.code(422)
    return body
  }),
  ...outlived('it throws an error of its own', { send: 0, wrong: 0 }, () => {
    throw broken()
  }),
  ...outlived('it throws an AbortError', { send: 1, wrong: 1 }, () => {
    throw new DOMException('aborted', 'AbortError')
  }),
  ...outlived('it throws what its signal aborted with', { send: 1, wrong: 1 }, reply => {
    throw reply.request.signal.reason
  }),
  ...outlived('it throws after keep()', { send: 1, wrong: 1 }, reply => {
    reply.limit?.keep()
    throw broken()
  }),
  {
    name: 'handlerTimeout, which an error handler answers with 408, then it throws an error of its own',
    stage(scene) {
      scene.app.setErrorHandler((_error: FastifyError, _request, reply) => reply.code(408).send(body))
      scene.route(
        async () => {
          await outlive(scene)
          throw broken()
        },
        { handlerTimeout: scene.handlerTimeout }
      )
    },
    status: 408,
    send: 0,
    wrong: 0,
    late: { send: 1, wrong: 1 }
  },
  {
    name: 'handlerTimeout, while the handler waits for the reply, then it throws',
    stage(scene) {
      scene.route(
        async (_, reply) => {
          await reply
          await outlive(scene)
          throw broken()
        },
        { handlerTimeout: scene.handlerTimeout }
      )
    },
    status: 503,
    send: 0,
    wrong: 0,
    late: { send: 1, wrong: 1 }
  },
  {
    name: 'handlerTimeout, and the handler leaves the reply to an error handler that takes its time',
    stage(scene) {
      scene.app.setErrorHandler(async (_error: FastifyError, _request, reply) => {
        await sleep(1)
        reply.code(504)
        return body
      })
      scene.route(
        async (request, reply) => {
          await once(request.signal, 'abort')
          return reply
        },
        { handlerTimeout: scene.handlerTimeout }
      )
    },
    status: 504,
    send: 1,
    wrong: 1
  }
]

const others: Ending[] = [
  { ...route('HEAD', sent, () => async (_, reply) => reply.code(202).send(body)), method: 'HEAD' },
  {
    ...route('HEAD, 502', { ...failed, status: 502 }, () => async (_, reply) => reply.code(502).send(body)),
    method: 'HEAD'
  },
  route('a stream', { ...sent, status: 200 }, () => async () => Readable.from(['a', 'b'])),
  route('a stream by reply.send', { ...sent, status: 200 }, () => (_, reply) => {
    reply.send(Readable.from(['a', 'b']))
  }),
  route(
    'a stream that breaks before it begins',
    { ...failed, send: 1 },
    () => async (_, reply) =>
      reply.send(
        new Readable({
          read() {
            this.destroy(broken())
          }
        })
      )
  ),
  route(
    '502 by a stream that has failed',
    { ...failed, status: 502 },
    () => async (_, reply) => reply.code(502).send(new Readable().destroy(broken()))
  ),
  route(
    '502 by a stream that has failed, returned as a value',
    { ...failed, status: 502 },
    () => async (_, reply) => {
      reply.code(502)
      return new Readable().destroy(broken())
    }
  ),
  route(
    '502 by a stream that has failed, without a promise',
    { ...failed, status: 502 },
    () => (_, reply) => {
      reply.code(502).send(new Readable().destroy(broken()))
    }
  ),
  route('a redirect', { ...sent, status: 302 }, () => async (_, reply) => reply.redirect('/elsewhere')),
  route('a redirect without a promise', { ...sent, status: 302 }, () => (_, reply) => {
    reply.redirect('/elsewhere')
  }),
  route('callNotFound', { status: 404, send: 0, wrong: 1 }, () => async (_, reply) => reply.callNotFound()),
  route('callNotFound without a promise', { status: 404, send: 0, wrong: 1 }, () => (_, reply) => {
    reply.callNotFound()
  }),
  route(
    'an answer without a body',
    { ...sent, status: 204 },
    () => async (_, reply) => reply.code(204).send()
  ),
  route('nothing returned, nothing sent', { ...sent, status: 200 }, () => async () => {}),
  route('null returned', { ...sent, status: 200 }, () => async () => null),
  route('a web Response', { ...sent, status: 202 }, () => async () => new Response('{}', { status: 202 })),
  route(
    'a web Response that fails',
    { ...failed, status: 502 },
    () => async () => new Response('{}', { status: 502 })
  ),
  route(
    'a Response of another class that fails',
    { ...failed, status: 502 },
    () => async () => new OtherResponse('{}', { status: 502 })
  ),
  route('a thenable whose then returns nothing', sent, () => (_, reply) => {
    reply.code(202)
    // biome-ignore lint/suspicious/noThenProperty: a thenable of another kind than a promise
    const thenable = { then: (resolve: (value: unknown) => void) => void setTimeout(resolve, 1, body) }
    return thenable as unknown as Promise<unknown>
  })
]

/** Like the Response of undici and of node-fetch, which is no subclass of the global one. */
class OtherResponse {
  readonly [Symbol.toStringTag] = 'Response'
  readonly status: number
  readonly headers: Headers
  readonly body: Response['body']
  readonly bodyUsed = false

  constructor(body: string, init: ResponseInit) {
    const { status, headers, body: stream } = new Response(body, init)
    this.status = status
    this.headers = headers
    this.body = stream
  }
}

export const endings: readonly Ending[] = [
  ...styles(202, { send: 1, wrong: 0 }),
  ...styles(422, { send: 0, wrong: 1 }),
  ...styles(502, { send: 0, wrong: 0 }),
  ...errors,
  ...surroundings,
  ...bySettling,
  ...timeouts,
  ...others
]
