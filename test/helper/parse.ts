import { type Program, parseSync } from 'oxc-parser'

/** The syntax tree of a TypeScript source. @throws with the first error in the source */
export function parse(name: string, text: string): Program {
  const { program, errors } = parseSync(name, text)
  if (errors[0]) throw new Error(`${name}: ${errors[0].message}`)
  return program
}
