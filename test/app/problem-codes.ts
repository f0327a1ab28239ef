import { readdirSync, readFileSync } from 'node:fs'
import ts from 'typescript'

const root = new URL('../../app/', import.meta.url)

/** A problem that the source throws. */
export interface Thrown {
  code: string
  detail: string
  /** Undefined where a function that makes it says so. */
  status: string | undefined
  at: string
}

/** Every problem that app/ throws, and the places whose code or words the source does not show. */
export function thrownProblems(): { thrown: Thrown[]; unclear: string[] } {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.ts'))
  const all = files.map(name => readCalls(name, readFileSync(new URL(name, root), 'utf8')))
  return { thrown: all.flatMap(each => each.thrown), unclear: all.flatMap(each => each.unclear) }
}

const CODE = /^[A-Z]+(_[A-Z]+)*$/

function readCalls(name: string, text: string) {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true)
  const thrown: Thrown[] = []
  const unclear: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      const made = /^problem(?:Document)?$/.test(node.expression.getText())
      const args = made ? node.arguments : [undefined, ...node.arguments]
      const [status, code, detail] = args.map(each => each && literal(each, file))
      const at = `${name}: ${node.getText().slice(0, 80)}`
      // Else it is a function of a file's own that hands its arguments on to problem().
      if (made || (CODE.test(code ?? '') && /\s/.test(detail ?? ''))) {
        if (code !== undefined && detail !== undefined) thrown.push({ code, detail, status, at })
        else if (!handsOn(node)) unclear.push(at)
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return { thrown, unclear }
}

/** Whether its code is a parameter of the function around. */
function handsOn(call: ts.CallExpression): boolean {
  const around = ts.findAncestor(call, ts.isFunctionDeclaration)
  return around?.parameters.some(({ name }) => name.getText() === call.arguments[1]?.getText()) ?? false
}

function literal(node: ts.Node, file: ts.SourceFile): string | undefined {
  if (ts.isStringLiteralLike(node) || ts.isNumericLiteral(node)) return node.text
  if (!ts.isIdentifier(node)) return undefined
  let found: string | undefined
  const visit = (each: ts.Node): void => {
    if (ts.isVariableDeclaration(each) && each.name.getText() === node.text && each.initializer) {
      if (ts.isStringLiteralLike(each.initializer)) found = each.initializer.text
    }
    ts.forEachChild(each, visit)
  }
  visit(file)
  return found
}
