import { channel } from 'node:diagnostics_channel'
import { constants, statSync } from 'node:fs'
import type { FastifyPluginAsync, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { canonicalIp, type DecisionEvent } from '../../plugin/index.js'
import { costOf, type Prices } from '../audit/cost.js'
import type { AuditEvent, AuditFact } from '../audit/event.js'
import { refusalOf } from '../audit/refusal.js'
import { openTrail } from '../audit/trail.js'
import { type Clock, iso } from '../clock.js'
import type { Config } from '../config-schema.js'
import { keyedHash } from '../keyed-hash.js'
import type { LogStream } from '../logger.js'
import { countryOf, type Recipient } from '../recipient.js'
import { canonical } from '../templates/params.js'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Writes an event to the audit trail and publishes it on the diagnostics channel `verification-api:audit`. Never
     * throws. Caller and recipient come from the request, unless the event has them.
     * @param recipient the recipient that the event is about, if it is not the request's
     */
    audit(fact: AuditFact, request?: FastifyRequest | null, recipient?: Recipient | null): void
    /** The hash by which the trail and the lists name a recipient: the same person, the same hash. */
    recipientHash(recipient: Pick<Recipient, 'identity'>): string
    /** For `onDecision`: writes refusals to the audit trail. */
    auditRefusal(event: DecisionEvent, request: FastifyRequest | null): void
  }
}

interface Options {
  config: Pick<Config, 'AUDIT_LOG'>
  /** Where the log goes. */
  logStream: LogStream
  secret: string
  clock: Clock
  /** The prices in force. */
  prices: () => Prices | undefined
}

const published = channel('verification-api:audit')

const audit: FastifyPluginAsync<Options> = async (fastify, options) => {
  const { config, logStream, secret, clock, prices } = options
  const { AUDIT_LOG: to = 'off' } = config
  const report = (error: unknown) => fastify.log.error({ err: error }, 'the audit trail cannot be written')
  const file = to === 'off' || to === 'stdout' ? null : openTrail(to, report)
  if (to === 'stdout')
    fastify.log.warn('AUDIT_LOG=stdout: lines with "audit":1 are the trail, others the log')
  else if (file !== null && isOpen(to))
    fastify.log.warn('AUDIT_LOG: everybody on this machine may read the file')
  const write = to === 'stdout' ? (line: string) => logStream.write(`${line}\n`) : file?.write
  const hash = (use: string, text: string) => keyedHash(secret, `audit ${use} ${text}`)

  function complete(
    fact: AuditFact,
    request: FastifyRequest | null,
    recipient: Recipient | null
  ): AuditEvent {
    const account = request?.account?.id
    const bound = request?.bound
    const country = recipient && countryOf(recipient)
    const address = request?.endUserIp ?? request?.ip
    return {
      audit: 1,
      time: iso(clock.wall()),
      ...(request !== null && { requestId: request.id }),
      ...(account !== undefined && { account }),
      ...(recipient !== null && {
        channel: recipient.channel,
        ...(country !== null && { country }),
        recipient: recipient.masked,
        recipientHash: fastify.recipientHash(recipient)
      }),
      ...(address !== undefined && { network: hash('network', canonicalIp(address) ?? address) }),
      ...(bound && { paramsHash: hash('params', canonical(bound)) }),
      ...fact,
      ...(recipient !== null && priced(fact, recipient))
    } as AuditEvent
  }

  // A message that was not sent costs nothing; one that may have been sent may cost.
  function priced(fact: AuditFact, { channel, to }: Recipient) {
    if (fact.event !== 'send' || (fact.outcome !== 'sent' && fact.outcome !== 'unknown')) return {}
    const cost = costOf(channel, to, fact.segments ?? 1, prices())
    return cost && { cost }
  }

  fastify.decorate('recipientHash', ({ identity }) => hash('recipient', identity))
  fastify.decorate('audit', (fact, request = null, recipient = request?.recipient ?? null) => {
    try {
      const event = complete(fact, request, recipient)
      write?.(JSON.stringify(event))
      published.publish(event)
    } catch (error) {
      report(error)
    }
  })
  fastify.decorate('auditRefusal', (event, request) => {
    if (event.allowed) return
    // The recipient of the code comes first, since whoever tries a code may name anybody.
    const recipient = request?.captcha ?? request?.recipient ?? null
    fastify.audit(refusalOf(event, request), request, recipient)
  })
  fastify.addHook('onClose', () => file?.close())
}

/** Whether everybody may read the file. The mode of a file that exists already is the operator's choice. */
function isOpen(file: string): boolean {
  const stats = statSync(file)
  return stats.isFile() && (stats.mode & constants.S_IROTH) !== 0
}

export default fp(audit, { name: 'audit', dependencies: ['requests'] })
