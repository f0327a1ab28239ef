import { handled } from '../awaitable.js'
import { wrongOption } from '../mistakes.js'

/** What key paths are read from: a Fastify request, or anything of its shape. */
export interface Source {
  body?: unknown
  query?: unknown
  params?: unknown
  headers?: unknown
  ip?: string | undefined
}

/** Whether a path is that of the client's address. */
export const isAddress = (path: string): boolean => path === 'ip' || path === 'request.ip'

/** The client's address; null for a client on a Unix socket, which has none. */
export const addressOf = (source: Source): string | null => source.ip ?? null

const ROOTS = ['body', 'query', 'params', 'headers', 'request']
const UNSAFE = new Set(['__proto__', 'prototype', 'constructor'])

/**
 * Compiles `body.phone`, `headers.x-tenant`, `request.account.id` and the like. Of what a client sends, only own
 * members are read; under `request` also inherited ones, such as those that Fastify and its plugins add.
 * @throws OptionError when such a path cannot exist
 */
export function compilePath(path: string, at: string): (source: Source) => unknown {
  const segments = path.split('.')
  const [root = '', ...members] = segments
  if (!ROOTS.includes(root)) {
    throw wrongOption(at, path, `Write a path that starts at ${ROOTS.join(', ')}, as in "body.phone".`)
  }
  if ((members.length === 0 && root !== 'body') || segments.some(part => part === '' || UNSAFE.has(part))) {
    const never = [...UNSAFE].map(name => `"${name}"`).join(', ')
    throw wrongOption(
      at,
      path,
      `Write names of members after "${root}", with single dots between them, none of them ${never}.`
    )
  }
  if (root === 'request' && ROOTS.includes(members[0] ?? ''))
    throw wrongOption(at, path, `Write it as "${members.join('.')}".`)
  if (path === 'request.ip') return addressOf
  // A hook may have put a promise there.
  if (root === 'request') return source => handled(members.reduce(anyMember, source as unknown))
  // Node has the names of headers in lower case.
  const names = root === 'headers' ? members.map(name => name.toLowerCase()) : members
  return source => names.reduce(ownMember, source[root as keyof Source] as unknown)
}

function ownMember(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
}

function anyMember(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
}
