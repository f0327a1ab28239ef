import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadPolicy } from '../../app/policy.js'
import type { Policy } from '../../app/policy-schema.js'
import type { Template, TemplateFiles } from '../../app/templates/schema.js'
import type { Teardown } from '../helper/teardown.js'
import { loadFiles, templatesFolder } from './template-files.js'

export const PAYMENT = { amount: 'EUR 12.50', payee: 'Zoë & Söhne' }
export const payment: Policy['purposes'][string] = {
  action: { en: 'pay', zh: '支付' },
  params: ['amount', 'payee']
}

const params: Template['params'] = {
  code: { type: 'string', maxLength: 10, example: '123456' },
  action: { type: 'string', maxLength: 80, example: 'pay' },
  minutes: { type: 'integer', minimum: 1, maximum: 60, example: '5' },
  amount: { type: 'string', maxLength: 20, pattern: '[A-Z]{3} [0-9]+(\\.[0-9]{2})?', example: 'EUR 12.50' },
  payee: { type: 'string', maxLength: 150, example: 'Example Shop' }
}
const en = '{code} is your code to {action} {amount} to {payee}, for {minutes} min.'
const zh = '{code}（{action}）：{amount}，收款方 {payee}，{minutes} 分钟内有效。'
const mail = (text: string) => ({ subject: '{amount}', text: [text], html: [`<p>${text}</p>`] })

/** The shipped templates, and one for the codes of a purpose `payment`. */
export function filesWithPayment(): TemplateFiles {
  const { sms, mail: mails } = loadFiles()
  return {
    sms: { ...sms, 'captcha-payment': { params, locales: { en: { text: en }, zh: { text: zh } } } },
    mail: { ...mails, 'captcha-payment': { params, locales: { en: mail(en), zh: mail(zh) } } }
  }
}

/** These templates and a policy with that purpose in files, and the variables that name them. */
export function operator(t: Teardown) {
  const { folder, write } = templatesFolder(t)
  const file = join(folder, 'policy.json')
  const put = (purposes: object = { payment }, files = filesWithPayment()) => {
    const policy = loadPolicy()
    write(files)
    writeFileSync(file, JSON.stringify({ ...policy, purposes: { ...policy.purposes, ...purposes } }))
  }
  put()
  return { put, env: { TEMPLATES_DIR: folder, POLICY_FILE: file } }
}
