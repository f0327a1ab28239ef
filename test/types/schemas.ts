// Type tests: a schema that does not fit its type does not compile.
import { object } from '../../plugin/schemas.js'

interface Shape {
  name: string
  kind?: 'a' | 'b'
}
const name = { type: 'string' }
const kind = { enum: ['a', 'b'] } as const

export const fitting = object<Shape>({ name, kind }, { name: true })
// @ts-expect-error "kind" is missing
export const short = object<Shape>({ name }, { name: true })
// @ts-expect-error there is no "size"
export const long = object<Shape>({ name, kind, size: name }, { name: true })
// @ts-expect-error "name" is required
export const lax = object<Shape>({ name, kind }, {})
// @ts-expect-error "kind" is not required
export const strict = object<Shape>({ name, kind }, { name: true, kind: true })
// @ts-expect-error no kind is "c"
export const wide = object<Shape>({ name, kind: { enum: ['a', 'c'] } }, { name: true })
