import { problem } from '../problem.js'

/** Text with `{placeholders}`; each is a parameter, required. */
export interface Template {
  subject?: string
  text: string
}

export type Params = Readonly<Record<string, string | number>>

const PLACEHOLDER = /\{(\w+)\}/g

export function placeholders({ subject = '', text }: Template): string[] {
  return [...new Set([...`${subject} ${text}`.matchAll(PLACEHOLDER)].map(match => match[1] as string))]
}

/** @throws a problem (422) that names the parameters that are missing or too many */
export function fill(template: Template, params: Params): Template {
  const known = placeholders(template)
  const missing = known.filter(name => !Object.hasOwn(params, name))
  const unknown = Object.keys(params).filter(name => !known.includes(name))
  if (missing.length + unknown.length > 0) {
    throw problem(422, 'PARAMS', `The template takes these parameters: ${known.join(', ') || 'none'}.`, {
      missing,
      unknown
    })
  }
  const put = (text: string) => text.replace(PLACEHOLDER, (_, name: string) => String(params[name]))
  const { subject, text } = template
  return { text: put(text), ...(subject !== undefined && { subject: put(subject) }) }
}
