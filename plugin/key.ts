import type { FastifyRequest } from 'fastify'
import type { Awaitable } from './awaitable.js'
import { Ipv4Prefix, Ipv6Prefix, object } from './schemas.js'

/**
 * A function of the request. Its type is that of a method, so that it may name the requests of its own route:
 * `(request: FastifyRequest<{ Body: Body }>) => …`.
 */
export type OfRequest<T> = { of(request: FastifyRequest): T }['of']
/**
 * Returns the identity that a request counts for, or undefined or null, as if the value were missing: 400, unless the
 * rule is `optional`. It may be async, within the option `timeout`.
 */
export type KeyFunction = OfRequest<Awaitable<string | number | bigint | boolean | null | undefined>>

interface PhonePart {
  /** Path of a phone number, such as `body.phone`. */
  phone: string
  /** The region of a number without a country code (ISO 3166-1 alpha-2); by default that of the option `region`. */
  region?: string
}
interface EmailPart {
  /** Path of a mail address, such as `body.to`. */
  email: string
}
interface IpPart {
  /** Path of a network address, such as `request.ip`. */
  ip: string
  /** How many bits of an IPv4 address name a network, 8 to 32; by default as in the option `ipv4Prefix`. */
  ipv4Prefix?: number
  /** How many bits of an IPv6 address name a network, 16 to 128; by default as in the option `ipv6Prefix`. */
  ipv6Prefix?: number
}
interface ValuePart {
  /** Path of a string, number or boolean, such as `request.account.id`, which is taken as it is. */
  value: string
}
type ScalarPart = PhonePart | EmailPart | IpPart | ValuePart
interface DigestPart {
  /**
   * Content of any kind: paths, whose values are taken as they are, or parts such as a phone, which are folded first.
   */
  digest: readonly (string | ScalarPart)[]
}
/**
 * What a rule looks at: the address (`"ip"`), nothing, so that everybody counts together (`"all"`), the value at a path,
 * content, or what a function returns.
 */
export type KeyPart = 'ip' | 'all' | ScalarPart | DigestPart | KeyFunction
/** Who a rule counts: one part, or several that count together. */
export type Key = KeyPart | readonly KeyPart[]

const Path = { type: 'string', description: 'a path such as "body.phone"' }

export const keyParts = {
  phone: object<PhonePart>({ phone: Path, region: { type: 'string' } }, { phone: true }),
  email: object<EmailPart>({ email: Path }, { email: true }),
  ip: object<IpPart>({ ip: Path, ipv4Prefix: Ipv4Prefix, ipv6Prefix: Ipv6Prefix }, { ip: true }),
  value: object<ValuePart>({ value: Path }, { value: true })
}
export const DigestSchema = object<DigestPart>(
  { digest: { type: 'array', minItems: 1, description: 'a list of at least one path or part' } },
  { digest: true }
)
