import { agents, notConnected } from './agents.js'
import { provider } from './provider.js'
import { SendError } from './sender.js'

const MAX_UNPACKED_BYTES = 1_048_576

/** Twilio Programmable Messaging. */
export const twilio = provider({
  channels: ['sms'],
  needs: ['TWILIO_ACCOUNT_SID', 'TWILIO_AUTH_TOKEN', 'TWILIO_FROM'],
  packages: 'twilio',
  async open(config) {
    const { default: sdk } = await import('twilio')
    const httpClient = new sdk.RequestClient({ timeout: config.SEND_TIMEOUT })
    const { http, https } = agents(config.SEND_TIMEOUT)
    const { axios } = httpClient
    Object.assign(axios.defaults, {
      httpAgent: http,
      httpsAgent: https,
      maxContentLength: MAX_UNPACKED_BYTES
    })
    // The SDK's own time-out covers silence only, but a body may never end.
    axios.interceptors.request.use(request =>
      Object.assign(request, { signal: AbortSignal.timeout(config.SEND_TIMEOUT) })
    )
    const client = sdk(config.TWILIO_ACCOUNT_SID, config.TWILIO_AUTH_TOKEN, { httpClient })
    // The SDK puts a path behind the text as it is, which may end with a blank.
    if (config.TWILIO_ENDPOINT !== undefined) client.api.baseUrl = new URL(config.TWILIO_ENDPOINT).href
    // The SDK loads `messages` at the first access: do that here, where no request waits for it.
    const { messages } = client
    const from = config.TWILIO_FROM
    const origin = /^MG\w{32}$/.test(from) ? { messagingServiceSid: from } : { from }
    return {
      name: 'twilio',
      async send({ to, text, lifetimeSeconds }) {
        // What waits in Twilio's queue for longer is not sent.
        const validity = lifetimeSeconds === undefined ? {} : { validityPeriod: lifetimeSeconds }
        const { sid } = await messages.create({ to, body: text, ...origin, ...validity }).catch(error => {
          throw outcomeOf(error)
        })
        // A 2xx answer that is not the API's, such as a proxy's.
        if (typeof sid !== 'string' || sid === '') throw new SendError('unknown', { code: 'NO_ANSWER' })
        return { sender: 'twilio', reference: sid }
      }
    }
  }
})

/** An error of the API, or of the connection. */
interface Answer extends Error {
  status?: number
  code?: number | string
}

// As listed at www.twilio.com/docs/api/errors
const REFUSED = new Set([21211, 21214, 21217, 21265, 21407, 21408, 21610, 21612, 21614, 21635])
/** The number is not verified by a trial account, is the sender's own, or cannot be reached from the sender's. */
const OF_MESSAGE = new Set([21219, 21266, 21608, 21659])
const LIMITED = new Set([14107, 20429, 21611, 63018])
/** Although the status is 5xx, the message was not taken: 20503 is "service unavailable". */
const SURE = new Set([20503])

function outcomeOf(error: Answer): SendError {
  const { status, code } = error
  if (status === undefined) {
    const before = notConnected(error)
    return new SendError(before === undefined ? 'unknown' : 'failed', {
      code: before ?? String(code ?? 'NO_ANSWER')
    })
  }
  const details = { code: code === undefined ? `HTTP_${status}` : String(code) }
  if (typeof code === 'number' && REFUSED.has(code)) return new SendError('refused', details)
  if (status === 429 || (typeof code === 'number' && LIMITED.has(code)))
    return new SendError('limited', details)
  const sure = (status >= 400 && status < 500) || SURE.has(Number(code))
  return new SendError(sure ? 'failed' : 'unknown', { ...details, ofMessage: OF_MESSAGE.has(Number(code)) })
}
