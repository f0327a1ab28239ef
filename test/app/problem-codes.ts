import { readdirSync, readFileSync } from 'node:fs'
import {
  type Argument,
  type CallExpression,
  type Function as Declaration,
  type Program,
  Visitor
} from 'oxc-parser'
import { parse } from '../helper/parse.js'

const root = new URL('../../app/', import.meta.url)

/** A problem that the source throws. */
interface Thrown {
  code: string
  detail: string
  /** Undefined where a function that makes the problem sets it. */
  status: string | undefined
  at: string
}

/** Every problem that app/ throws, and the places where the source does not show code or text. */
export function thrownProblems(): { thrown: Thrown[]; unclear: string[] } {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.ts'))
  const all = files.map(name => readCalls(name, readFileSync(new URL(name, root), 'utf8')))
  return { thrown: all.flatMap(each => each.thrown), unclear: all.flatMap(each => each.unclear) }
}

const CODE = /^[A-Z]+(_[A-Z]+)*$/

function readCalls(name: string, text: string) {
  const program = parse(name, text)
  const constants = constantsOf(program)
  const around: Declaration[] = []
  const thrown: Thrown[] = []
  const unclear: string[] = []
  const makes = text.includes("/problem.js'")
  const visitor = new Visitor({
    FunctionDeclaration: node => void around.push(node),
    'FunctionDeclaration:exit': () => void around.pop(),
    CallExpression(node) {
      const made = node.callee.type === 'Identifier' && /^problem(?:Document)?$/.test(node.callee.name)
      const args = made ? node.arguments : [undefined, ...node.arguments]
      const [status, code, detail] = args.map(each => each && literal(each, constants))
      const at = `${name}: ${text.slice(node.start, node.end).slice(0, 80)}`
      // Else it is a function of the file that passes its arguments on to problem().
      if (made || (makes && CODE.test(code ?? '') && /\s/.test(detail ?? ''))) {
        if (code !== undefined && detail !== undefined) thrown.push({ code, detail, status, at })
        else if (!handsOn(node, around.at(-1))) unclear.push(at)
      }
    }
  })
  visitor.visit(program)
  return { thrown, unclear }
}

/** Whether the code is a parameter of the function around the call. */
function handsOn({ arguments: [, code] }: CallExpression, around: Declaration | undefined): boolean {
  if (code?.type !== 'Identifier') return false
  return around?.params.some(each => each.type === 'Identifier' && each.name === code.name) ?? false
}

/** The texts that a file has as constants. */
function constantsOf(program: Program): Map<string, string> {
  const found = new Map<string, string>()
  const visitor = new Visitor({
    VariableDeclarator({ id, init }) {
      const text = init && textOf(init)
      if (id.type === 'Identifier' && typeof text === 'string') found.set(id.name, text)
    }
  })
  visitor.visit(program)
  return found
}

function literal(node: Argument, constants: ReadonlyMap<string, string>): string | undefined {
  return node.type === 'Identifier' ? constants.get(node.name) : textOf(node)
}

function textOf(node: Argument): string | undefined {
  if (node.type === 'Literal' && ['string', 'number'].includes(typeof node.value)) return String(node.value)
  if (node.type === 'TemplateLiteral' && node.expressions.length === 0)
    return node.quasis[0]?.value.cooked ?? undefined
  return undefined
}
