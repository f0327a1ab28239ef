import type { FastifyError } from 'fastify'
import { type Flaw, type FlawCode, flaw, pointerTo } from './flaw.js'
import { type ProblemDocument, type ProblemError, problem, problemDocument } from './problem.js'

type Validation = NonNullable<FastifyError['validation']>[number]
type Params = Record<string, string | string[] | number | undefined>

const DETAIL = 'What was sent is not as documented; "errors" says where.'

/** The problem for flaws that a schema cannot express, such as a member that does not go with another one. */
export function invalidBy(errors: readonly Flaw[]): ProblemError {
  return problem(422, 'INVALID', DETAIL, { errors })
}

/**
 * The problem document for a request that its schema refuses.
 * @param validation ajv's errors. Only the first is told: the others may be of other branches of a choice
 */
export function invalid(validation: readonly Validation[]): ProblemDocument {
  const errors = validation.slice(0, 1).map(flawOf)
  return problemDocument(422, 'INVALID', DETAIL, { errors })
}

const LIMITS: Record<string, FlawCode> = {
  minLength: 'TOO_SHORT',
  maxLength: 'TOO_LONG',
  minimum: 'TOO_SMALL',
  maximum: 'TOO_LARGE',
  minItems: 'TOO_FEW',
  maxItems: 'TOO_MANY',
  minProperties: 'TOO_FEW',
  maxProperties: 'TOO_MANY'
}
const TYPES: Record<string, FlawCode> = {
  string: 'NOT_STRING',
  number: 'NOT_NUMBER',
  integer: 'NOT_INTEGER',
  boolean: 'NOT_BOOLEAN',
  object: 'NOT_OBJECT',
  array: 'NOT_ARRAY'
}

function flawOf({ keyword, instancePath, params }: Validation): Flaw {
  const pointer = `#${instancePath}`
  const { missingProperty, additionalProperty, type, limit, pattern, format, ...others } = params as Params
  if (keyword === 'required') return flaw(pointerTo(pointer, String(missingProperty)), 'REQUIRED')
  if (keyword === 'additionalProperties')
    return flaw(pointerTo(pointer, String(additionalProperty)), 'UNEXPECTED')
  if (keyword === 'type') return flaw(pointer, TYPES[String(type)] ?? 'WRONG')
  if (keyword === 'enum') return flaw(pointer, 'NOT_ONE_OF', { allowed: others.allowedValues })
  if (keyword === 'const') return flaw(pointer, 'NOT_ONE_OF', { allowed: [others.allowedValue] })
  if (keyword === 'pattern') return flaw(pointer, 'PATTERN', { pattern })
  if (keyword === 'format') return flaw(pointer, 'FORMAT', { format })
  const code = LIMITS[keyword]
  return code === undefined ? flaw(pointer, 'WRONG') : flaw(pointer, code, { limit })
}
