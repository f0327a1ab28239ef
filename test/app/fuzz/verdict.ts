import { readFileSync } from 'node:fs'
import { Compile } from 'typebox/schema'
import type { OpenApi, Operation, Schema } from './operations.js'

export interface Got {
  status: number
  headers: Record<string, unknown>
  text: string
}

const page = (name: string) => readFileSync(new URL(`../../../docs/${name}`, import.meta.url), 'utf8')

/** The codes in the docs. */
const CODES = new Set([
  ...[...page('app-errors.md').matchAll(/^\| `([A-Z_]+)` \|/gm)].map(each => each[1]),
  ...[...page('errors.md').matchAll(/^## (FST_SEND_LIMIT_[A-Z_]+)$/gm)].map(each => each[1])
])

/**
 * Throws what is wrong with an error answer: with any, whatever was asked.
 * @returns its code
 */
export function checkProblem({ status, headers, text }: Got): string {
  if (status >= 500) throw new Error(`${status}: ${text}`)
  const is = (right: boolean, what: string) => {
    if (!right) throw new Error(`${what}: ${status} ${JSON.stringify(headers)} ${text}`)
  }
  is(headers['content-type'] === 'application/problem+json', 'no problem document')
  is(/^(en|zh)$/.test(String(headers['content-language'])), 'no content-language')
  const body = JSON.parse(text) as Record<string, unknown>
  for (const member of ['type', 'title', 'detail', 'code'])
    is(typeof body[member] === 'string', `no ${member}`)
  is(body.status === status, 'another status in the body')
  const code = String(body.code)
  is(CODES.has(code), 'a code that the docs do not tell')
  return code
}

/** Whether the path, with its parameters put in, belongs to another operation or to none. */
const isNoRoute = (code: string) => code === 'NOT_FOUND' || code === 'METHOD_NOT_ALLOWED'

/** The codes in the documented description of an answer. */
export const codesOf = (description: string): string[] =>
  description.split(' Codes: ')[1]?.match(/\w+/g) ?? []

/** Headers that an answer has only where they are documented. */
const TELLING = ['retry-after', 'www-authenticate', 'idempotency-replayed', 'content-language']

/** @returns a function that throws where an answer of the operation differs from its document */
export function judgeOf({ components }: OpenApi, { responses }: Operation): (got: Got) => void {
  const schemas = new Map(
    Object.entries(responses).map(([status, { content = {}, headers = {}, description = '' }]) => {
      const [type, documented] = Object.entries(content)[0] ?? []
      const schema = { ...documented?.schema, components } as Schema
      const told = Object.keys(headers).map(name => name.toLowerCase())
      return [Number(status), { type, check: Compile(schema), told, codes: codesOf(description) }]
    })
  )
  return got => {
    const { status, headers, text } = got
    const code = status >= 400 ? checkProblem(got) : ''
    if (isNoRoute(code)) return
    const known = schemas.get(status)
    if (known === undefined) throw new Error(`an undocumented status: ${status} ${text}`)
    // Refusals are documented by the plugin.
    if (code !== '' && status !== 429 && !known.codes.includes(code))
      throw new Error(`an undocumented code: ${status} ${text}`)
    const untold = TELLING.find(name => headers[name] !== undefined && !known.told.includes(name))
    if (untold !== undefined) throw new Error(`an undocumented header: ${status} ${untold}`)
    const type = headers['content-type']?.toString().split(';')[0]
    if (type !== known.type) throw new Error(`the type ${type} in place of ${known.type}: ${text}`)
    if (
      type === undefined ? text !== '' : !known.check.Check(type.endsWith('json') ? JSON.parse(text) : text)
    ) {
      throw new Error(`not as documented: ${status} ${text} ${JSON.stringify(known.check.Errors(text))}`)
    }
  }
}
