import t from 'tap'
import { places, post } from './helper.js'

const phone = '13800138000'
const order = 'order-shipped'
const changed = 'password-changed'

/** Spellings of one content: what is sent twice within a minute is not sent a third time. */
const spellings: Record<string, object[]> = {
  'no parameters and none': [
    { phone, template: changed },
    { phone, template: changed, params: {} },
    { phone, template: changed, params: {} }
  ],
  'a number and its text': [
    { phone, template: order, params: { order: 17 } },
    { phone, template: order, params: { order: '17' } },
    { phone, template: order, params: { order: ' 17 ' } }
  ],
  'names in another order': [
    { phone, template: 'appointment-reminder', params: { date: '1 May', time: '9' } },
    { phone, template: 'appointment-reminder', params: { time: 9, date: '1 May' } },
    { phone, template: 'appointment-reminder', params: { time: 9, date: '1\u00a0 May' } }
  ],
  'characters in one piece and in two': [
    { phone, template: 'appointment-reminder', params: { date: 'Mo\u00ebl', time: 9 } },
    { phone, template: 'appointment-reminder', params: { date: 'Moe\u0308l', time: 9 } },
    { phone, template: 'appointment-reminder', params: { date: 'Mo\u00ebl ', time: 9 } }
  ],
  'one number, and one language': [
    { phone, template: changed },
    { phone: '+86 138-0013-8000', template: changed, locale: 'en' },
    { phone: '0086 138 0013 8000', template: changed, locale: 'EN-gb' }
  ]
}

for (const [name, open] of Object.entries(places)) {
  t.test(name, async t => {
    const place = await open(t)
    const app = await place.start()
    for (const [what, bodies] of Object.entries(spellings)) {
      const statuses = []
      for (const body of bodies) statuses.push((await post(app, '/v1/sms', body)).status)
      t.same(statuses, [202, 202, 429], what)
      place.advance(60_000)
    }
    t.equal(new Set(app.outbox?.messages.map(({ text }) => text)).size, 4, 'each pair was one text')

    await post(app, '/v1/sms', { phone, template: order, params: { order: 1 } })
    await post(app, '/v1/sms', { phone, template: order, params: { order: 1 } })
    const invisible = { phone, template: order, params: { order: '1\u200b' } }
    t.match(
      await post(app, '/v1/sms', invisible),
      { status: 422 },
      'an invisible character makes no other content'
    )
    t.equal((await post(app, '/v1/sms', { phone, template: order, params: { order: 2 } })).status, 202)
  })
}

t.test('a message is in the language of the body, else in that of Accept-Language', async t => {
  const app = await (await places.memory(t)).start()
  const sent = async (language: string, locale?: string) => {
    const body = {
      to: `${language}${locale ?? ''}@example.com`,
      template: 'welcome',
      params: { name: 'Kim' },
      locale
    }
    const { status } = await post(app, '/v1/mail', body, { headers: { 'accept-language': language } })
    t.equal(status, 202)
    return app.outbox?.messages[0]
  }
  t.match(await sent('en'), { subject: 'Welcome, Kim', text: 'Hello Kim,' })
  t.match(await sent('zh'), { subject: 'Kim，欢迎您', text: 'Kim，您好：' })
  t.match(await sent('zh', 'en'), { subject: 'Welcome, Kim' })
  t.match(await sent('en', 'zh-CN'), { subject: 'Kim，欢迎您' })
})
