import type { FastifyRequest } from 'fastify'
import type { Awaitable } from './awaitable.js'
import { Ipv4Prefix, Ipv6Prefix, object } from './schemas.js'

/** A method, so that it may take the requests of a route alone: `(request: FastifyRequest<{ Body: Body }>) => …`. */
export type OfRequest<T> = { of(request: FastifyRequest): T }['of']
/** Answers who a request counts for; undefined or null: nobody, as if the value were missing. */
export type KeyFunction = OfRequest<Awaitable<string | number | bigint | boolean | null | undefined>>

interface PhonePart {
  /** Path of a phone number, such as `body.phone`. */
  phone: string
  /** Where it is from without a country code; by default as the option `region`. */
  region?: string
}
interface EmailPart {
  /** Path of a mail address, such as `body.to`. */
  email: string
}
interface IpPart {
  /** Path of a network address, such as `request.ip`. */
  ip: string
  /** How many bits of an IPv4 address name a network; by default as the option. */
  ipv4Prefix?: number
  /** How many bits of an IPv6 address name a network; by default as the option. */
  ipv6Prefix?: number
}
interface ValuePart {
  /** Path of a text, number or boolean, such as `request.account.id`; it is taken as it is. */
  value: string
}
type ScalarPart = PhonePart | EmailPart | IpPart | ValuePart
/** A digest's parts are values of any kind; a phone or an address among them is folded first. */
interface DigestPart {
  /** Content of any kind: paths, or parts that are folded first. */
  digest: readonly (string | ScalarPart)[]
}
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
