// The API as it is started in production, or a bare route with the same answer. Listens at PORT.
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify, { LogController } from 'fastify'
import { answer, asked, cpuTime } from '../lib/child.js'

const { PORT: port } = process.env

async function bare(): Promise<void> {
  const logController = new LogController({ disableRequestLogging: true })
  const app = Fastify({
    logger: { level: 'info', file: '/dev/null' },
    logController,
    keepAliveTimeout: 60_000
  })
  app.post('/v1/captcha', (_request, reply) =>
    reply.code(202).send({
      id: 'AAAAAAAAAAAAAAAAAAAAAA',
      channel: 'sms',
      recipient: '+86*******8000',
      expiresAt: new Date().toISOString(),
      resendAt: new Date().toISOString()
    })
  )
  await app.listen({ port: Number(port), host: '127.0.0.1' })
}

/** Starts the API, which ends the process if it cannot start. */
async function api(): Promise<void> {
  await import('../../app/server.js')
  const ready = () =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ ok }) => ok,
      () => false
    )
  while (!(await ready())) await sleep(50)
}

if (asked()) {
  await (asked()?.[0] === 'bare' ? bare() : api())
  answer(cpuTime)
}
