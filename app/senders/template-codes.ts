import { type Message, SendError } from './sender.js'

interface TemplateCode {
  code: string
  /** Names of parameters in the order of the provider's placeholders; empty: all of a message, in their order. */
  names: readonly string[]
}

/** The provider's codes of templates, by `name.locale`. */
type TemplateCodes = ReadonlyMap<string, TemplateCode>

/** @param text as in `captcha.zh=SMS_154950909:code,order-shipped.en=SMS_1` */
export function readTemplateCodes(text: string): TemplateCodes {
  const entries = text.split(',').map((entry): [string, TemplateCode] => {
    const [key = '', value = ''] = entry.split('=')
    const [code = '', ...names] = value.split(':')
    return [key, { code, names }]
  })
  return new Map(entries)
}

/**
 * The provider's code for the template of a message, and its parameters in the provider's order.
 * @throws SendError `failed`, because of the message: TEMPLATE_UNKNOWN or PARAMETER_MISSING
 */
export function inCode(codes: TemplateCodes, { template, locale, params }: Message) {
  const found = codes.get(`${template}.${locale}`)
  if (found === undefined) throw new SendError('failed', { code: 'TEMPLATE_UNKNOWN', ofMessage: true })
  const names = found.names.length === 0 ? Object.keys(params) : found.names
  const values = names.map((name): [string, string] => {
    const value = Object.hasOwn(params, name) ? params[name] : undefined
    if (value === undefined) throw new SendError('failed', { code: 'PARAMETER_MISSING', ofMessage: true })
    return [name, value]
  })
  return { code: found.code, params: values }
}
