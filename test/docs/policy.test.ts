import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import { filesWithPayment } from '../app/bound.js'
import { ask } from '../app/captcha.js'
import { places, post } from '../app/helper.js'
import { loadFiles, templatesFolder } from '../app/template-files.js'
import { folderOf } from '../helper/folder.js'
import { blocksOf, read } from './blocks.js'

/** How the page writes a window or a period. */
const spans: Record<string, RegExp> = { '60s': /60 s|minute/, '1h': /hour/, '24h': /24 h/, day: /a day/ }

t.test('the numbers and windows that the page gives for rules are those of the policy', async t => {
  const { rules } = loadPolicy()
  const rows = read('docs/policy.md').matchAll(/^\| ((?:`[\w-]+`(?:, )?)+) \| [^|]* \| ([^|]*) \|$/gm)
  for (const [, names = '', told = ''] of rows) {
    const limits = [...names.matchAll(/`([\w-]+)`/g)].flatMap(
      ([, name]) => rules.find(rule => rule.name === name)?.limits ?? []
    )
    if (limits.length === 0) continue
    const numbers = told.replace(/`[^`]*`|\b60 s\b|\b24 h\b|,(?=\d)/g, '').match(/\d+/g) ?? []
    const most = limits.map(({ max }) => (typeof max === 'number' ? String(max) : /^\d+$/))
    t.match(numbers, most, names)
    t.equal(numbers.length, most.length, names)
    for (const limit of limits) t.match(told, spans[limit.per ?? limit.window], names)
  }
})

/** The file contents that the page shows, by block. */
const shown = (use: string) =>
  blocksOf('docs/policy.md').flatMap(block => (block.use === use ? [JSON.parse(block.text)] : []))

t.test('a purpose with transaction data works as the page shows it', async t => {
  const { folder, write } = templatesFolder(t)
  const { sms, mail } = filesWithPayment()
  write({ sms: { ...sms, ...shown('template')[0] }, mail })
  const POLICY_FILE = join(folder, 'policy.json')
  const { purposes, ...policy } = loadPolicy()
  writeFileSync(
    POLICY_FILE,
    JSON.stringify({ ...policy, purposes: { ...purposes, ...shown('purposes')[0] } })
  )
  const app = await (await places.memory(t)).start({ TEMPLATES_DIR: folder, POLICY_FILE })
  const params = { amount: 'EUR 12.50', payee: 'Café Müller & Co.' }
  const asked = { phone: '13800138000', purpose: 'payment', params }
  t.equal((await post(app, '/v1/captcha', asked)).status, 202)
  t.match(
    app.outbox?.messages[0]?.text,
    /^\d{6} is your code to pay EUR 12\.50 to Café Müller & Co\., for 5 min\. Do/
  )
  t.match(await post(app, '/v1/captcha', { ...asked, params: { ...params, payee: 'Win: 1=2!' } }), {
    status: 422,
    body: { errors: [{ pointer: '#/params/payee', code: 'PATTERN' }] }
  })
})

t.test('a rule of one’s own works as the page shows it', async t => {
  const POLICY_FILE = join(folderOf(t), 'policy.json')
  const { rules, ...policy } = loadPolicy()
  const prices = { currency: 'USD', sms: { default: 250.0001 } }
  writeFileSync(POLICY_FILE, JSON.stringify({ ...policy, prices, rules: [...rules, ...shown('own-rule')] }))
  const app = await (await places.memory(t)).start({ POLICY_FILE, API_KEYS: 'one:first,two:second' })
  const send = (key: string, phone: string) =>
    post(app, '/v1/sms', { phone, template: 'password-changed' }, { headers: { 'x-api-key': key } })
  t.equal((await send('one', '13800138000')).status, 202)
  t.match(await send('one', '13800138001'), {
    status: 429,
    body: { 'violated-policies': ['account-budget'] }
  })
  t.equal((await send('two', '13800138001')).status, 202)
})

t.test('a third language works as the page shows it', async t => {
  const { folder, write } = templatesFolder(t)
  const [, sms] = shown('template')
  const [, purposes] = shown('purposes')
  write({ sms, mail: loadFiles().mail })
  const POLICY_FILE = join(folder, 'policy.json')
  writeFileSync(POLICY_FILE, JSON.stringify({ ...loadPolicy(), purposes }))
  const app = await (await places.memory(t)).start({ TEMPLATES_DIR: folder, POLICY_FILE })
  t.equal((await ask(app, { purpose: 'login', locale: 'de-AT' })).status, 202)
  t.match(app.outbox?.messages[0]?.text, /^\d{6} ist Ihr Code zum Anmelden\. Er gilt 5 min\./)
})
