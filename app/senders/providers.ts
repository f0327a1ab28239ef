import { aliyun } from './aliyun.js'
import type { Provider } from './provider.js'
import { smtp } from './smtp.js'
import { tencent } from './tencent.js'
import { twilio } from './twilio.js'
import { webhook } from './webhook.js'

/** Every provider, by the name that SMS_SENDERS and MAIL_SENDERS call it. */
export const providers: Readonly<Record<string, Provider>> = { smtp, aliyun, tencent, twilio, webhook }
