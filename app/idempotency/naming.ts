import type { FastifyRequest } from 'fastify'
import { canonicalIp } from '../../plugin/index.js'
import { keyedHash } from '../keyed-hash.js'
import type { Slot } from './answers.js'

/** A request with an `Idempotency-Key`, as keyed hashes only. */
interface Named {
  slot: Slot
  body: string
}

/** Names requests. Equal requests get the same name, whatever the order of members in their bodies. */
export function namingOf(secret: string): (key: string, request: FastifyRequest) => Named {
  const hash = (use: string, parts: unknown) =>
    keyedHash(secret, `idempotency ${use} ${JSON.stringify(parts, sortMembers)}`)
  return (key, request) => {
    const { method, routeOptions, params } = request
    const scope = hash('scope', ownerOf(request))
    const named = [scope, method, routeOptions.url, params, key]
    // Hashed together with `named`, so that nobody sees that different requests have the same body.
    return { slot: { scope, key: hash('key', named) }, body: hash('body', [named, request.body]) }
  }
}

/** The owner of an `Idempotency-Key`: the account that an API key proves, else the network, with a page's account. */
function ownerOf({ account, caller, ip }: FastifyRequest) {
  if (account && caller === 'key') return ['account', account.id]
  const address = canonicalIp(ip ?? '')
  return account ? ['page', account.id, address] : ['network', address]
}

function sortMembers(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const members = value as Record<string, unknown>
  return Object.fromEntries(
    Object.keys(members)
      .sort()
      .map(name => [name, members[name]])
  )
}
