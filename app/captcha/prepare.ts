import type { FastifyRequest } from 'fastify'
import { accountOf, mayUse } from '../accounts/account.js'
import { errorsAt } from '../flaw.js'
import { localeOf } from '../plugins/locale.js'
import { endUserOf } from '../plugins/requests.js'
import type { Policy } from '../policy-schema.js'
import { problem } from '../problem.js'
import { codeTemplate } from '../templates/codes.js'
import type { Asked, Captcha } from './captchas.js'

/**
 * Notes on the request what sending for this purpose needs, before the send is counted.
 * @param pointer JSON pointer of the purpose in the body, if the body names it
 * @throws a problem (403, 422) when the purpose is unknown or not allowed to this account
 */
export function preparePurpose(request: FastifyRequest, purpose: string, pointer?: string): void {
  const { conceal = false } = purposeOf(request.server.policy, purpose, pointer)
  mayUse(accountOf(request), 'purposes', purpose)
  request.purpose = purpose
  request.endUserIp = endUserOf(request)
  request.concealed = conceal
}

/**
 * @param pointer JSON pointer of the name in the body, if the body holds it
 * @throws a problem (422) when the policy has no purpose of that name
 */
export function purposeOf({ purposes }: Policy, name: string, pointer?: string): Policy['purposes'][string] {
  const known = Object.hasOwn(purposes, name) ? purposes[name] : undefined
  if (known !== undefined) return known
  const names = Object.keys(purposes)
  throw problem(422, 'PURPOSE_UNKNOWN', 'There is no such purpose. Use one of: {known}.', {
    known: names,
    ...errorsAt(pointer, 'NOT_ONE_OF', { allowed: names })
  })
}

/**
 * Notes that nothing is to be sent, while the answer reads as usual. A server asks for this (`send: false`), so that
 * strangers are answered like its users.
 * @throws a problem (422) when the purpose is not concealed or the caller has no key: it would only cost the caller
 */
export function withhold(request: FastifyRequest): void {
  if (!request.concealed || request.caller !== 'key') {
    const detail = 'Only for a concealed purpose, and with a key, may nothing be sent.'
    throw problem(422, 'SEND_REQUIRED', detail, errorsAt('#/send', 'NOT_ONE_OF', { allowed: [true] }))
  }
  request.withheld = true
}

/**
 * The best language for a code, of those that have both a template and the words for its purpose.
 * @param given the tag that the body names, as in `localeOf`
 * @throws a problem (422): PURPOSE_UNKNOWN when the policy has lost the purpose
 */
export function localeOfCode(
  request: FastifyRequest,
  { channel, purpose }: Pick<Asked, 'channel' | 'purpose'>,
  given?: string
): string {
  const { templates, policy } = request.server
  const { action, params } = purposeOf(policy, purpose)
  const locales = templates.localesOf(channel, codeTemplate(purpose, params))
  const known = locales.filter(locale => Object.hasOwn(action, locale))
  return localeOf(request, known, given)
}

/**
 * Looks a code up and notes it on the request.
 * @throws a problem (404) when the account has no code of that id
 */
export async function prepareCaptcha(request: FastifyRequest, id: string): Promise<Captcha> {
  const captcha = await findCaptcha(request, id)
  if (captcha === null)
    throw problem(404, 'CAPTCHA_UNKNOWN', 'There is no code with this id, or it no longer exists.')
  return captcha
}

/** The problem (410) for a code that can no longer be resent or cancelled. */
export const codeEnded = () => problem(410, 'CAPTCHA_ENDED', 'This code has ended; ask for a new one.')

/** Looks a code up and notes it on the request; null when the account has none of that id. */
export async function findCaptcha(request: FastifyRequest, id: string): Promise<Captcha | null> {
  request.endUserIp = endUserOf(request)
  request.captcha = await request.server.captchas.find(id, accountOf(request).id)
  return request.captcha
}
