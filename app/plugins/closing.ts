import type { FastifyPluginAsync } from 'fastify'
import fp from 'fastify-plugin'

/** Lets connections go with their last answer, else an idle one would hold up the end of the process. */
const closing: FastifyPluginAsync = async fastify => {
  let ending = false
  fastify.addHook('preClose', async () => {
    ending = true
  })
  fastify.addHook('onSend', (_request, reply, _payload, done) => {
    if (ending) reply.header('connection', 'close')
    done()
  })
}

export default fp(closing, { name: 'closing' })
