import type { FastifyPluginAsync } from 'fastify'
import type { Config } from '../config-schema.js'
import { CHANNELS } from '../senders/sender.js'
import healthz from './healthz.js'
import metrics from './metrics.js'
import readyz from './readyz.js'
import admin from './v1/admin/index.js'
import captcha from './v1/captcha/index.js'
import outbox from './v1/dev/outbox.js'
import messages from './v1/messages.js'
import quota from './v1/quota.js'

const routes: FastifyPluginAsync<{ config: Config }> = async (fastify, { config }) => {
  // Machines ask these every few seconds, which is not worth two lines of the log each time.
  const logLevel = config.LOG_LEVEL === 'info' ? 'warn' : config.LOG_LEVEL
  await fastify.register(healthz, { logLevel })
  await fastify.register(readyz, {
    logLevel,
    sharded: config.REDIS_SHARDED === 'on',
    timeoutMs: config.STORE_TIMEOUT
  })
  await fastify.register(metrics, { logLevel })
  await fastify.register(captcha, { prefix: '/v1/captcha' })
  for (const channel of CHANNELS) await fastify.register(messages, { prefix: '/v1', channel })
  await fastify.register(quota, { prefix: '/v1' })
  if (config.ADMIN_KEY !== undefined) {
    await fastify.register(admin, { prefix: '/v1/admin', adminKey: config.ADMIN_KEY })
  }
  if (fastify.outbox !== null) await fastify.register(outbox, { prefix: '/v1/dev', outbox: fastify.outbox })
}

export default routes
