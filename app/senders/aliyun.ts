import type { Clock } from '../clock.js'
import { kind } from './kind.js'
import { type Message, SendError, type Sender } from './sender.js'
import { inCode, readTemplateCodes } from './template-codes.js'
import { HOUR_MS, MINUTE_MS, untilMidnightInChina } from './waits.js'

/** Aliyun (Alibaba Cloud) SMS: SendSms of API 2017-05-25. */
export const aliyun = kind({
  channels: ['sms'],
  needs: ['ALIYUN_ACCESS_KEY_ID', 'ALIYUN_ACCESS_KEY_SECRET', 'ALIYUN_SIGN_NAME', 'ALIYUN_TEMPLATES'],
  packages: '@alicloud/dysmsapi20170525 @alicloud/openapi-client',
  templates: 'ALIYUN_TEMPLATES',
  async open(config, clock) {
    const [{ default: sdk, SendSmsRequest }, { Config }] = await Promise.all([
      import('@alicloud/dysmsapi20170525'),
      import('@alicloud/openapi-client')
    ])
    const { protocol, host } = new URL(config.ALIYUN_ENDPOINT ?? 'https://dysmsapi.aliyuncs.com')
    // Loaders that run TypeScript give the class itself.
    const Client = sdk.default ?? (sdk as unknown as typeof sdk.default)
    // It runs on after connecting; as the read time-out is shorter, that ends first then. But where the process stood still
    // both are over, and this one may be heard first: then it comes later than it can without a connection.
    const connectMs = Math.ceil(config.SEND_TIMEOUT * 0.5)
    const surelyMs = config.SEND_TIMEOUT * 0.55
    const client = new Client(
      new Config({
        accessKeyId: config.ALIYUN_ACCESS_KEY_ID,
        accessKeySecret: config.ALIYUN_ACCESS_KEY_SECRET,
        endpoint: host,
        protocol: protocol.slice(0, -1),
        connectTimeout: connectMs,
        readTimeout: Math.ceil(config.SEND_TIMEOUT * 0.45)
      })
    )
    const codes = readTemplateCodes(config.ALIYUN_TEMPLATES)
    const asked = (message: Message) => ({ ...inCode(codes, message), number: numberOf(message) })
    const sender: Sender = {
      name: 'aliyun',
      check: message => void asked(message),
      async send(message) {
        const { code, params, number } = asked(message)
        const request = new SendSmsRequest({
          phoneNumbers: number,
          signName: config.ALIYUN_SIGN_NAME,
          templateCode: code,
          templateParam: JSON.stringify(Object.fromEntries(params))
        })
        const began = performance.now()
        const { body } = await client.sendSms(request).catch((error: Answer & Broken) => {
          const soon = performance.now() - began < surelyMs
          throw error.statusCode === undefined ? breakOf(error, soon) : outcomeOf(error, clock)
        })
        if (body?.code === 'OK') return { sender: 'aliyun', ...(body.bizId && { reference: body.bizId }) }
        throw outcomeOf(body ?? {}, clock)
      }
    }
    return sender
  }
})

/** What Aliyun takes for a mobile number of mainland China, which needs no country code. */
const MAINLAND = /^1[3-9]\d{9}$/

/**
 * The number as Aliyun takes it: with its country code and no plus.
 * @throws SendError for one of North America that would be somebody else's in China
 */
function numberOf({ to }: Message): string {
  if (to.startsWith('+86')) return to.slice(3)
  const digits = to.slice(1)
  if (MAINLAND.test(digits)) throw new SendError('failed', { code: 'NUMBER_AMBIGUOUS', ofMessage: true })
  return digits
}

/** Nothing that could be read was answered. */
interface Broken {
  code?: string
  message: string
  syscall?: string
}

const BEFORE_REQUEST = /^(CERT_|ERR_TLS_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/
/** Node's words when a connection ends within its handshake. */
const NO_TLS = 'before secure TLS connection was established'

/** @param soon whether a time-out can only be that of connecting */
function breakOf({ code, message, syscall }: Broken, soon: boolean): SendError {
  if (message.startsWith('ConnectTimeout'))
    return new SendError(soon ? 'failed' : 'unknown', { code: 'ETIMEDOUT' })
  const before =
    syscall === 'connect' ||
    syscall === 'getaddrinfo' ||
    BEFORE_REQUEST.test(code ?? '') ||
    message.includes(NO_TLS)
  return new SendError(before ? 'failed' : 'unknown', { code: code ?? 'NO_ANSWER' })
}

/** What the API answers, in the body of a 200 or as an error of the SDK. */
interface Answer {
  code?: string
  message?: string
  statusCode?: number
  /** In milliseconds. */
  retryAfter?: number
}

// As listed at help.aliyun.com/zh/sms/developer-reference/api-error-codes
const REFUSED = new Set([
  'isv.MOBILE_NUMBER_ILLEGAL',
  'isv.PHONE_NUMBER_ILLEGAL',
  'isv.BLACK_KEY_CONTROL_LIMIT',
  'isv.CUSTOMER_REFUSED'
])
/** Countries that are not served, or not by this template. */
const OF_MESSAGE = new Set([
  'isv.COUNTRY_RESTRICTED',
  'isv.DOMESTIC_NUMBER_NOT_SUPPORTED',
  'isv.NOT_SUPPORTED_COUNTRY'
])
const LIMITED = /^(isv\.)?(BUSINESS_LIMIT|(MINUTE|HOUR|DAY|MONTH)_LIMIT)|^VALVE:|^Throttling/
/** These do not say whether the message was taken; nor does an error that says OK. */
const UNSURE = /^(OK$|isp\.(SYSTEM_ERROR|UNKNOWN|GATEWAY_ERROR)$|InternalError|SystemError)/

/** What the SDK makes of no code, and of values that are none of the API's. */
const NO_CODE = /^(undefined|true|false|\d*)$/

function outcomeOf(answer: Answer, clock: Clock): SendError {
  const { code = 'undefined', message = '', statusCode = 200, retryAfter } = answer
  if (LIMITED.test(code)) {
    const retryAfterMs = retryAfter ?? waitOf(`${code} ${message}`, clock)
    return new SendError('limited', { code, ...(retryAfterMs !== undefined && { retryAfterMs }) })
  }
  if (REFUSED.has(code)) return new SendError('refused', { code })
  if (NO_CODE.test(code)) {
    const refusal = statusCode >= 400 && statusCode < 500
    return new SendError(refusal ? 'failed' : 'unknown', { code: `HTTP_${statusCode}` })
  }
  const unsure = UNSURE.test(code) || (statusCode >= 500 && code !== 'ServiceUnavailable')
  return new SendError(unsure ? 'unknown' : 'failed', { code, ofMessage: OF_MESSAGE.has(code) })
}

function waitOf(words: string, clock: Clock): number | undefined {
  if (/分钟|MINUTE|M_MC/.test(words)) return MINUTE_MS
  if (/小时|HOUR|H_MC/.test(words)) return HOUR_MS
  if (/天|DAY|D_MC/.test(words)) return untilMidnightInChina(clock.wall())
  return undefined
}
