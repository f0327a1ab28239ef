import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Clock } from '../clock.js'
import { signed } from './acs3.js'
import { jsonOf, poster } from './post.js'
import { provider } from './provider.js'
import { type Message, SendError, statusError } from './sender.js'
import { inCode, readTemplateCodes } from './template-codes.js'
import { HOUR_MS, MINUTE_MS, untilMidnightInChina } from './waits.js'

/**
 * Aliyun (Alibaba Cloud) SMS: SendSms of API 2017-05-25. Without the SDK, which makes its own connections: neither its
 * errors nor their times tell whether a connection was established when the time was over.
 */
export const aliyun = provider({
  channels: ['sms'],
  needs: ['ALIYUN_ACCESS_KEY_ID', 'ALIYUN_ACCESS_KEY_SECRET', 'ALIYUN_SIGN_NAME', 'ALIYUN_TEMPLATES'],
  templates: 'ALIYUN_TEMPLATES',
  async open(config, clock) {
    const endpoint = new URL(config.ALIYUN_ENDPOINT ?? 'https://dysmsapi.aliyuncs.com')
    const post = poster(endpoint.protocol, config.SEND_TIMEOUT)
    const key = { id: config.ALIYUN_ACCESS_KEY_ID, secret: config.ALIYUN_ACCESS_KEY_SECRET }
    const codes = readTemplateCodes(config.ALIYUN_TEMPLATES)
    const asked = (message: Message) => ({ ...inCode(codes, message), number: numberOf(message) })
    return {
      name: 'aliyun',
      check: message => void asked(message),
      async send(message, signal) {
        const { code, params, number } = asked(message)
        const { search, headers } = signed(
          {
            host: endpoint.host,
            action: 'SendSms',
            version: '2017-05-25',
            query: {
              PhoneNumbers: number,
              SignName: config.ALIYUN_SIGN_NAME,
              TemplateCode: code,
              TemplateParam: JSON.stringify(Object.fromEntries(params))
            },
            at: clock.wall(),
            nonce: randomUUID()
          },
          key
        )
        const response = await post({ url: new URL(`/?${search}`, endpoint), headers, body: '', signal })
        const answer = await jsonOf<keyof Answer>(response)
        const { statusCode = 0 } = response
        if (statusCode < 300 && answer.Code === 'OK') {
          const { BizId: reference } = answer
          return { sender: 'aliyun', ...(typeof reference === 'string' && reference && { reference }) }
        }
        throw outcomeOf(answer, statusCode, response.headers, clock)
      }
    }
  }
})

/** Digits that Aliyun takes for a mobile number of mainland China, which needs no country code. */
const MAINLAND = /^1[3-9]\d{9}$/

/**
 * The number as Aliyun takes it: with its country code, except for mainland China, and without a plus.
 * @throws SendError for a number of North America that Aliyun would take for one of mainland China
 */
function numberOf({ to }: Message): string {
  if (to.startsWith('+86')) return to.slice(3)
  const digits = to.slice(1)
  if (MAINLAND.test(digits)) throw new SendError('failed', { code: 'NUMBER_AMBIGUOUS', ofMessage: true })
  return digits
}

/** An answer of the API. */
interface Answer {
  Code?: unknown
  Message?: unknown
  BizId?: unknown
}

// As listed at help.aliyun.com/zh/sms/developer-reference/api-error-codes
const REFUSED = new Set(['isv.MOBILE_NUMBER_ILLEGAL', 'isv.PHONE_NUMBER_ILLEGAL', 'isv.CUSTOMER_REFUSED'])
/** The country is not served, or not by this template; or a parameter holds what it may not. */
const OF_MESSAGE = new Set([
  'isv.COUNTRY_RESTRICTED',
  'isv.DOMESTIC_NUMBER_NOT_SUPPORTED',
  'isv.NOT_SUPPORTED_COUNTRY',
  'isv.BLACK_KEY_CONTROL_LIMIT',
  'isv.PARAM_LENGTH_LIMIT',
  'isv.PARAM_NOT_SUPPORT_URL',
  'isv.SMS_CONTENT_ILLEGAL',
  'isv.TEMPLATE_PARAMS_ILLEGAL'
])
const LIMITED = /^(isv\.)?(BUSINESS_LIMIT|(MINUTE|HOUR|DAY|MONTH)_LIMIT)|^VALVE:|^Throttling/
/**
 * Codes that do not say whether the message was taken; nor does an error whose code is OK. Each call has a nonce of its
 * own, so `SignatureNonceUsed` means that something on the way has repeated the call.
 */
const UNSURE =
  /^(OK$|SignatureNonceUsed$|isp\.(SYSTEM_ERROR|UNKNOWN|GATEWAY_ERROR)$|InternalError|SystemError)/

function outcomeOf(
  { Code: code, Message: words }: Answer,
  status: number,
  headers: IncomingHttpHeaders,
  clock: Clock
): SendError {
  if (typeof code !== 'string' || !/^[a-z]/i.test(code)) return statusError(status)
  if (LIMITED.test(code)) {
    const header = String(headers['x-acs-retry-after'] ?? '')
    const retryAfterMs = /^\d{1,9}$/.test(header) ? Number(header) : waitOf(`${code} ${words}`, clock)
    return new SendError('limited', { code, retryAfterMs })
  }
  if (REFUSED.has(code)) return new SendError('refused', { code })
  const unsure = UNSURE.test(code) || (status >= 500 && code !== 'ServiceUnavailable')
  return new SendError(unsure ? 'unknown' : 'failed', { code, ofMessage: OF_MESSAGE.has(code) })
}

function waitOf(words: string, clock: Clock): number | undefined {
  if (/分钟|MINUTE|M_MC/.test(words)) return MINUTE_MS
  if (/小时|HOUR|H_MC/.test(words)) return HOUR_MS
  if (/天|DAY|D_MC/.test(words)) return untilMidnightInChina(clock.wall())
  return undefined
}
