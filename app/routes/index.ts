import type { FastifyPluginAsync } from 'fastify'
import type { Config } from '../config.js'
import type { Policy } from '../policy.js'
import healthz from './healthz.js'
import metrics from './metrics.js'
import readyz from './readyz.js'
import captcha from './v1/captcha/index.js'
import verify from './v1/captcha/verify.js'
import outbox from './v1/dev/outbox.js'
import mail from './v1/mail.js'
import sms from './v1/sms.js'

const routes: FastifyPluginAsync<{ config: Config; policy: Policy }> = async (
  fastify,
  { config, policy }
) => {
  const region = config.REGION
  await fastify.register(healthz)
  await fastify.register(readyz)
  await fastify.register(metrics)
  await fastify.register(captcha, { prefix: '/v1/captcha', policy, region })
  await fastify.register(verify, { prefix: '/v1/captcha', policy })
  await fastify.register(sms, { prefix: '/v1', region })
  await fastify.register(mail, { prefix: '/v1' })
  if (fastify.outbox !== null) await fastify.register(outbox, { prefix: '/v1/dev', outbox: fastify.outbox })
}

export default routes
