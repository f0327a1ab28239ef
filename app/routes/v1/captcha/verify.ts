import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import type { Captcha } from '../../../captcha/captchas.js'
import { findCaptcha } from '../../../captcha/prepare.js'
import { type Checked, UNTRIED } from '../../../captcha/records.js'
import { giveBack } from '../../../captcha/unverified.js'
import { WRONG_CODES } from '../../../captcha/wrong-codes.js'
import { ownRules } from '../../../facts.js'
import { flaw } from '../../../flaw.js'
import { invalidBy } from '../../../invalid.js'
import { problem } from '../../../problem.js'
import { isSame, recipientOf } from '../../../recipient.js'
import { VerifyAnswer, VerifyBody } from '../../../schemas/captcha.js'
import { problems } from '../../../schemas/problem.js'
import { BODY, CAPTCHA, RECIPIENT } from '../../../schemas/problem-codes.js'
import { type Given, readValues, type Values } from '../../../templates/params.js'

const verify: FastifyPluginAsyncTypebox = async fastify => {
  async function check(
    captcha: Captcha | null,
    { code, purpose = captcha?.purpose }: { code: string; purpose?: string },
    { recipient, bound }: FastifyRequest
  ): Promise<Checked> {
    if (captcha === null) return UNTRIED
    // The purpose and recipient that the caller names must be those of the code.
    const agrees = purpose === captcha.purpose && (recipient === null || isSame(recipient, captcha))
    return fastify.captchas.check(captcha, agrees ? code : undefined, bound ?? undefined)
  }

  fastify.post(
    '/verify',
    {
      config: { limit: ['verify-attempts', ...WRONG_CODES, ...ownRules(fastify.policy.rules, 'try')] },
      preParsing: fastify.identify,
      preHandler: async request => {
        const { id, code, phone, email, params } = request.body
        request.body.code = digitsOf(code)
        if (params !== undefined) request.bound = saidToBe(params)
        if ((phone ?? email) !== undefined)
          request.recipient = recipientOf({ phone, email }, { region: fastify.region })
        await findCaptcha(request, id)
      },
      schema: {
        operationId: 'verifyCaptcha',
        summary: 'Verify a code',
        description:
          'Checks a code. The right code is used up, even if many requests bring it at once. A wrong code uses up a try; after the last try, the code is no longer valid.',
        tags: ['captcha'],
        security: [{ apiKey: [] }, {}],
        body: VerifyBody,
        response: { 200: VerifyAnswer, ...problems(...BODY, ...CAPTCHA, ...RECIPIENT, 'CODE_WRONG') }
      }
    },
    async (request, reply) => {
      const { captcha, body } = request
      const code = captcha && { ...captcha, sender: captcha.kept.sender }
      const fact = {
        event: 'verification' as const,
        ...(code && { purpose: code.purpose }),
        ...(code?.sender && { sender: code.sender })
      }
      const record = (outcome: Outcome, more = {}) => {
        fastify.metrics.verified(code, outcome)
        fastify.audit({ ...fact, ...more, outcome }, request, captcha)
      }
      const checked = await check(captcha, body, request).catch(error => {
        // Redis may have counted the try all the same.
        record('unknown')
        throw error
      })
      const { verified, triesLeft, tried, receipts } = checked
      // If such a try counted, anybody could lock a recipient out by means of one code that has ended.
      if (!tried) await reply.limit?.refund()
      record(outcomeOf(checked), { triesLeft })
      if (verified) giveBack(reply, receipts)
      if (captcha === null || !verified) {
        // One answer for a wrong, an ended and an unknown code.
        throw problem(422, 'CODE_WRONG', 'This code is wrong or no longer valid.', { verified, triesLeft })
      }
      const { purpose, channel, masked, params } = captcha
      return {
        verified: true as const,
        triesLeft,
        purpose,
        channel,
        recipient: masked,
        ...(params && { params })
      }
    }
  )
}

/** @throws a problem (422) for values to which no code can be bound */
function saidToBe(params: Given): Values {
  const { values, flaws } = readValues(params)
  if (flaws.length > 0) throw invalidBy(flaws)
  return values
}

type Outcome = 'verified' | 'wrong' | 'ended' | 'unknown'

const BETWEEN = /[\s\p{Pd}\p{Cf}]/gu
const CODE = /^[0-9]{4,10}$/

/**
 * The digits of what was typed or pasted. Not by a pattern of the schema: many clients check those by expressions
 * without Unicode properties.
 * @throws a problem (422) where it is no code
 */
function digitsOf(typed: string): string {
  const digits = typed.replace(BETWEEN, '').replace(/\p{Nd}/gu, plainDigit)
  if (!CODE.test(digits)) throw invalidBy([flaw('#/code', 'PATTERN', { pattern: CODE.source })])
  return digits
}

/** As in the plugin: Unicode has the ten digits of a script in a row, from zero. */
function plainDigit(digit: string): string {
  const code = digit.codePointAt(0) as number
  let zero = code
  while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero--
  return String((code - zero) % 10)
}

function outcomeOf({ verified, tried }: Checked): Outcome {
  if (verified) return 'verified'
  return tried ? 'wrong' : 'ended'
}

export default verify
