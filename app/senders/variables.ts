import { Type } from 'typebox'

// One template.locale=code. Names of parameters, in the order of the placeholders, may follow the code.
const CODE = '[\\w-]+\\.[\\w-]+=[\\w-]+(:\\w+)*'
const SENDER = '[a-z][a-z0-9-]*(:[1-9][0-9]{0,2})?'
const CHOICE = `${SENDER}([,|]${SENDER})*`

// Keys of Standard Webhooks have 24 to 64 bytes. Receivers' libraries accept base64 only with its padding.
const WEBHOOK_KEY = '(?=[^=]{32,86}=*$)([A-Za-z0-9+/]{4})+([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?'

const text = (description: string) => Type.Optional(Type.String({ minLength: 1, description }))
// A value that was read from a file may end with a line break or a blank, which no provider and no header accepts.
const line = (description: string) =>
  Type.Optional(
    Type.String({
      pattern: '^(?! )[^\\u0000-\\u001f\\u007f]+(?<! )$',
      description: `${description}, in one line and without blanks around it`
    })
  )
const secret = (description: string) =>
  Type.Optional(
    Type.String({ pattern: '^[!-~]+$', writeOnly: true, description: `${description}, of visible ASCII` })
  )
const templates = (example: string) =>
  Type.Optional(
    Type.String({
      pattern: `^${CODE}(,${CODE})*$`,
      description: `a list of the provider's codes for templates, each by template and language, as in ${example}`
    })
  )
const choice = (example: string) =>
  Type.Optional(
    Type.String({
      pattern: `^${CHOICE}$`,
      description: `a list of senders in the order in which they are tried, with | between senders that share messages by weight, as in ${example}`
    })
  )

/** The variables that configure the senders (docs/senders.md). */
export const SenderVariables = {
  SMS_SENDERS: choice('aliyun:3|tencent:1,twilio'),
  MAIL_SENDERS: choice('smtp,webhook'),
  SEND_TIMEOUT: Type.Integer({
    default: 10_000,
    minimum: 100,
    maximum: 25_000,
    description: 'how long sending a message may take in all, in milliseconds'
  }),
  RESEND_ORDER: Type.Enum(['others-first', 'same'], {
    default: 'others-first',
    description:
      'others-first if a resend asks the sender of the message before after all others, same if it keeps to the order'
  }),
  DEV_OUTBOX: Type.Enum(['on', 'off'], {
    default: 'on',
    description:
      'on for an outbox, which shows what is not really sent, and off for none; never on in production'
  }),
  SMTP_URL: Type.Optional(
    Type.String({
      writeOnly: true,
      description: 'the address of the mail server, as in smtps://user:password@mail.example:465'
    })
  ),
  SMTP_TLS: Type.Optional(
    Type.Enum(['required', 'opportunistic'], {
      description:
        '"required" to send mail only with TLS (the default in production), or "opportunistic" to send it unencrypted to servers that offer no TLS'
    })
  ),
  MAIL_FROM: Type.Optional(Type.String({ minLength: 3, description: 'the sender address of mails' })),
  ALIYUN_ACCESS_KEY_ID: secret('the id of an access key that may call dysms:SendSms'),
  ALIYUN_ACCESS_KEY_SECRET: secret('the secret of ALIYUN_ACCESS_KEY_ID'),
  ALIYUN_SIGN_NAME: line('the approved signature of messages'),
  ALIYUN_TEMPLATES: templates('captcha.zh=SMS_154950909:code'),
  ALIYUN_ENDPOINT: text('the address of the API; https://dysmsapi.aliyuncs.com by default'),
  TENCENT_SECRET_ID: secret('the id of a key that may call sms:SendSms'),
  TENCENT_SECRET_KEY: secret('the secret of TENCENT_SECRET_ID'),
  TENCENT_SDK_APP_ID: line('the SdkAppId of the application'),
  TENCENT_SIGN_NAME: line('the approved signature of messages'),
  TENCENT_TEMPLATES: templates('captcha.zh=1234567:code:minutes'),
  TENCENT_REGION: Type.Optional(
    Type.String({ pattern: '^[a-z0-9-]+$', description: 'the region of the API; ap-guangzhou by default' })
  ),
  TENCENT_ENDPOINT: text('the address of the API; https://sms.tencentcloudapi.com by default'),
  TWILIO_ACCOUNT_SID: Type.Optional(
    // A secret, since the value may be the token by mistake.
    Type.String({
      pattern: '^AC\\w+$',
      writeOnly: true,
      description: 'the SID of the account, with AC at its beginning'
    })
  ),
  TWILIO_AUTH_TOKEN: secret('the auth token of TWILIO_ACCOUNT_SID'),
  TWILIO_FROM: line('a number in E.164, a sender name, or the SID of a messaging service'),
  TWILIO_ENDPOINT: text('the address of the API; https://api.twilio.com by default'),
  WEBHOOK_URL: text('the URL to which messages are posted, with https unless it is on a network of your own'),
  WEBHOOK_SECRET: Type.Optional(
    Type.String({
      pattern: `^whsec_${WEBHOOK_KEY}$`,
      writeOnly: true,
      description: 'the key that signs messages: whsec_ and then 24 to 64 random bytes in base64'
    })
  )
}
