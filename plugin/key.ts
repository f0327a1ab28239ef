import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Awaitable } from './awaitable.js'
import { Ipv4Prefix, Ipv6Prefix, strict } from './schemas.js'

/** A method, so that it may take the requests of a route alone: `(request: FastifyRequest<{ Body: Body }>) => …`. */
export type OfRequest<T> = { of(request: FastifyRequest): T }['of']
/** Answers who a request counts for; undefined or null: nobody, as if the value were missing. */
export type KeyFunction = OfRequest<Awaitable<string | number | bigint | boolean | null | undefined>>

const Path = Type.String({ description: 'a path such as "body.phone"' })

export const keyParts = {
  phone: Type.Object(
    {
      /** Path of a phone number, such as `body.phone`. */
      phone: Path,
      /** Where it is from without a country code; by default as the option `region`. */
      region: Type.Optional(Type.String())
    },
    strict
  ),
  email: Type.Object(
    {
      /** Path of a mail address, such as `body.to`. */
      email: Path
    },
    strict
  ),
  ip: Type.Object(
    {
      /** Path of a network address, such as `request.ip`. */
      ip: Path,
      /** How many bits of an IPv4 address name a network; by default as the option. */
      ipv4Prefix: Type.Optional(Ipv4Prefix),
      /** How many bits of an IPv6 address name a network; by default as the option. */
      ipv6Prefix: Type.Optional(Ipv6Prefix)
    },
    strict
  ),
  value: Type.Object(
    {
      /** Path of a text, number or boolean, such as `request.account.id`; it is taken as it is. */
      value: Path
    },
    strict
  )
}
type ScalarPart = { [K in keyof typeof keyParts]: Static<(typeof keyParts)[K]> }[keyof typeof keyParts]
/** A digest's parts are values of any kind; a phone or an address among them is folded first. */
export const DigestPart = Type.Object(
  {
    /** Content of any kind: paths, or parts that are folded first. */
    digest: Type.Immutable(
      Type.Array(Type.Unsafe<string | ScalarPart>({}), {
        minItems: 1,
        description: 'a list of at least one path or part'
      })
    )
  },
  strict
)
export type KeyPart = 'ip' | 'all' | ScalarPart | Static<typeof DigestPart> | KeyFunction
/** Who a rule counts: one part, or several that count together. */
export type Key = KeyPart | readonly KeyPart[]
