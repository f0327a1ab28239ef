import type { EventEmitter } from 'node:events'
import type { Agent } from 'node:http'
import type { Clock } from '../clock.js'
import { agents, notConnected } from './agents.js'
import { provider } from './provider.js'
import { SendError, statusError } from './sender.js'
import { inCode, readTemplateCodes } from './template-codes.js'
import { HOUR_MS, untilMidnightInChina } from './waits.js'

/** Tencent Cloud SMS: SendSms of API 2021-01-11. */
export const tencent = provider({
  channels: ['sms'],
  needs: [
    'TENCENT_SECRET_ID',
    'TENCENT_SECRET_KEY',
    'TENCENT_SDK_APP_ID',
    'TENCENT_SIGN_NAME',
    'TENCENT_TEMPLATES'
  ],
  packages: 'tencentcloud-sdk-nodejs-sms',
  templates: 'TENCENT_TEMPLATES',
  async open(config, clock) {
    const { sms } = await import('tencentcloud-sdk-nodejs-sms')
    const { protocol, host } = new URL(config.TENCENT_ENDPOINT ?? 'https://sms.tencentcloudapi.com')
    const agent = agents(config.SEND_TIMEOUT)[protocol === 'http:' ? 'http' : 'https']
    // One for each message, since its agent serves one request.
    const newClient = () =>
      new sms.v20210111.Client({
        credential: { secretId: config.TENCENT_SECRET_ID, secretKey: config.TENCENT_SECRET_KEY },
        region: config.TENCENT_REGION ?? 'ap-guangzhou',
        profile: {
          httpProfile: {
            endpoint: host,
            protocol: `${protocol}//`,
            reqTimeout: config.SEND_TIMEOUT / 1_000,
            agent: once(agent)
          }
        }
      })
    const codes = readTemplateCodes(config.TENCENT_TEMPLATES)
    return {
      name: 'tencent',
      check: message => void inCode(codes, message),
      async send(message, signal) {
        const { code, params } = inCode(codes, message)
        const request = {
          PhoneNumberSet: [message.to],
          SmsSdkAppId: config.TENCENT_SDK_APP_ID,
          SignName: config.TENCENT_SIGN_NAME,
          TemplateId: code,
          TemplateParamSet: params.map(([, value]) => value)
        }
        // The SDK leaves the body of an error response unread, and so the connection open: this aborts it at the end.
        const known = new AbortController()
        const options = { signal: AbortSignal.any([signal, known.signal]) }
        const answer: Answer = await newClient()
          .request('SendSms', request, options)
          .catch((error: Broken) => {
            throw 'traceId' in error && error.code !== undefined
              ? outcomeOf(error.code, clock)
              : breakOf(error)
          })
          .then(ofThisApi)
          .finally(() => known.abort())
        const status = answer.SendStatusSet?.[0]
        if (status?.Code !== 'Ok') throw outcomeOf(status?.Code, clock)
        return { sender: 'tencent', ...(status.SerialNo && { reference: status.SerialNo }) }
      }
    }
  }
})

/**
 * An agent for one request: a second one would follow a redirect, and send the message to whatever host that names.
 * node-fetch, by which the SDK asks, calls the function before each request.
 */
function once(agent: Agent): Agent {
  let used = false
  const take = () => {
    if (used) throw new Error('redirected')
    used = true
    return agent
  }
  return take as unknown as Agent
}

/** An event stream is no answer of this API. Aborting it emits an error, which must have a listener. */
function ofThisApi(answer: Answer & { [each in 'eventSource' | 'readline']?: EventEmitter }): Answer {
  for (const events of [answer.eventSource, answer.readline]) events?.on?.('error', () => {})
  return answer
}

interface Answer {
  SendStatusSet?: { Code?: unknown; SerialNo?: string }[]
}

/**
 * An error of the SDK. With a `traceId`, it has the API's code, or the status of an answer that is not the API's, or is
 * of the connection. Without a `traceId`, the answer broke off, and its code is no code of the API.
 */
type Broken = Error & { code?: string; httpCode?: number }

function breakOf(error: Broken): SendError {
  const before = notConnected(error)
  if (before !== undefined) return new SendError('failed', { code: before })
  const { httpCode } = error
  return httpCode === undefined ? new SendError('unknown', { code: 'NO_ANSWER' }) : statusError(httpCode)
}

// As listed at cloud.tencent.com/document/product/382/55981
const REFUSED = new Set([
  'FailedOperation.PhoneNumberInBlacklist',
  'FailedOperation.PhoneNumberOnBlacklist',
  'InvalidParameterValue.IncorrectPhoneNumber',
  'InvalidParameterValue.InvalidPhoneNumber'
])
const LIMITED = /^(RequestLimitExceeded|LimitExceeded)(\.|$)/
/** A parameter holds what it may not. */
const OF_PARAMETERS = new Set([
  'FailedOperation.ContainSensitiveWord',
  'InvalidParameterValue.ContentLengthLimit',
  'InvalidParameterValue.ProhibitedUseUrlInTemplateParameter',
  'InvalidParameterValue.TemplateParameterFormatError',
  'InvalidParameterValue.TemplateParameterLengthLimit'
])
/** Mistakes in the call, despite their names: the message surely was not sent. */
const SURE = new Set([
  'InternalError.JsonParseFail',
  'InternalError.RequestTimeException',
  'InternalError.RestApiInterfaceNotExist',
  'InternalError.SigFieldMissing',
  'InternalError.SigVerificationFail'
])

function outcomeOf(code: unknown, clock: Clock): SendError {
  // Codes of the API are strings; any other answer is not the API's.
  if (typeof code !== 'string' || code === '') return new SendError('unknown', { code: 'NO_ANSWER' })
  if (LIMITED.test(code)) {
    const retryAfterMs = waitOf(code, clock)
    return new SendError('limited', { code, retryAfterMs })
  }
  if (REFUSED.has(code)) return new SendError('refused', { code })
  // UnsupportedOperation: the country is not served, or not by this template.
  const ofMessage = code.startsWith('UnsupportedOperation.') || OF_PARAMETERS.has(code)
  // Other InternalErrors include time-outs on the way to the carrier.
  const unsure = code.startsWith('InternalError') && !SURE.has(code)
  return new SendError(unsure ? 'unknown' : 'failed', { code, ofMessage })
}

function waitOf(code: string, clock: Clock): number | undefined {
  if (code.endsWith('ThirtySecondLimit')) return 30_000
  if (code.endsWith('OneHourLimit')) return HOUR_MS
  if (code.endsWith('DailyLimit')) return untilMidnightInChina(clock.wall())
  return undefined
}
