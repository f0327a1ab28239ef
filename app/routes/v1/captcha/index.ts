import type { FastifyPluginAsync } from 'fastify'
import browsers from '../../../accounts/browsers.js'
import cancel from './cancel.js'
import resend from './resend.js'
import send from './send.js'
import status from './status.js'
import verify from './verify.js'

/** The routes of codes: send, resend, verify, status, cancel. Pages may use them if an account lists their origin. */
const captcha: FastifyPluginAsync = async fastify => {
  await fastify.register(browsers)
  await fastify.register(send)
  await fastify.register(resend)
  await fastify.register(verify)
  await fastify.register(status)
  await fastify.register(cancel)
}

export default captcha
