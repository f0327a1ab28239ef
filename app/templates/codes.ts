import type { Template } from './schema.js'

/** The template of codes. Purposes whose codes are bound to params have a template of their own. */
const CODES = 'captcha'
const PREFIX = `${CODES}-`
/** Parameters of these templates that the API fills in itself. Codes are bound to the others. */
const OWN = ['code', 'action', 'minutes']

/** The template for codes of a purpose: the purpose's own one, if its codes are bound to params. */
export const codeTemplate = (purpose: string, params: readonly string[] = []): string =>
  params.length === 0 ? CODES : PREFIX + purpose

/** Whether a template is for codes only. */
export const isOfCodes = (template: string): boolean => template === CODES || template.startsWith(PREFIX)

/** The purpose to which a template of codes belongs; undefined for the one that all other purposes share. */
export const purposeOf = (template: string): string | undefined =>
  template === CODES ? undefined : template.slice(PREFIX.length)

/** Of the parameters of a template, those that its codes are bound to. */
export const boundNames = (template: string, params: readonly string[]): string[] =>
  isOfCodes(template) ? params.filter(name => !OWN.includes(name)) : []

/** The mistakes in the templates of codes of a channel, each with its path. */
export function mistakesOfCodes(templates: Readonly<Record<string, Template>>): string[] {
  const wrong = Object.hasOwn(templates, CODES) ? [] : [` lacks ${CODES}.`]
  for (const [name, { params }] of Object.entries(templates)) {
    if (!isOfCodes(name)) continue
    const bound = boundNames(name, Object.keys(params))
    const isWhole = OWN.every(each => Object.hasOwn(params, each))
    const more = name === CODES ? '' : ', and those that its purpose names'
    if (!isWhole || (bound.length === 0) !== (name === CODES))
      wrong.push(`.${name}.params must be ${OWN.join(', ')}${more}.`)
    for (const each of bound)
      if (params[each]?.type === 'url')
        wrong.push(`.${name}.params.${each}.type must not be url: what a code is bound to holds no link.`)
  }
  return wrong
}
