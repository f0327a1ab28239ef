import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import { PROBLEM_JSON } from './problem.js'

const select = SerializerSelector()

/**
 * Makes serializers as Fastify does, but none for problems, which `sendProblem` serializes itself: each route documents
 * several, and compiling their schemas would take as long as half of building the app.
 */
export function buildSerializer(...schemas: Parameters<typeof select>): ReturnType<typeof select> {
  const compile = select(...schemas)
  return route =>
    'contentType' in route && route.contentType === PROBLEM_JSON ? JSON.stringify : compile(route)
}
