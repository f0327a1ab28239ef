import type { Template } from './schema.js'

/** The template of codes; those that are bound to parameters have one for each purpose. */
const CODES = 'captcha'
const PREFIX = `${CODES}-`
/** What the API puts into each of these itself; what else they take, their codes are bound to. */
const OWN = ['code', 'action', 'minutes']

/** The template of the codes of a purpose: one of its own when they are bound to parameters. */
export const codeTemplate = (purpose: string, params: readonly string[] = []): string =>
  params.length === 0 ? CODES : PREFIX + purpose

/** Whether codes are sent with it, and nothing else. */
export const isOfCodes = (template: string): boolean => template === CODES || template.startsWith(PREFIX)

/** The purpose whose codes alone are sent with this template of codes; undefined for those of all others. */
export const purposeOf = (template: string): string | undefined =>
  template === CODES ? undefined : template.slice(PREFIX.length)

/** Of the parameters of a template, those that its codes are bound to. */
export const boundNames = (template: string, params: readonly string[]): string[] =>
  isOfCodes(template) ? params.filter(name => !OWN.includes(name)) : []

/** What is wrong with the templates of codes of a channel: each mistake with its path. */
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
