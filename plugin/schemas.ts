import { Type } from 'typebox'

/** Refuses members that are not named. */
export const strict = { additionalProperties: false }

export const Name = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$',
  description: '1 to 64 letters, digits, "_", "." and "-", a letter or digit first'
})

export const Duration = Type.Union([Type.String(), Type.Number()], {
  description: 'a duration such as "60s", "5m", "1h", "24h", "30d", or milliseconds'
})

/** How many bits of an IPv4 address name a network. */
export const Ipv4Prefix = Type.Integer({
  minimum: 8,
  maximum: 32,
  description: 'a whole number from 8 to 32'
})

/** How many bits of an IPv6 address name a network. */
export const Ipv6Prefix = Type.Integer({
  minimum: 16,
  maximum: 128,
  description: 'a whole number from 16 to 128'
})

/** A function by its looks; what it takes and answers, its type says. */
export function Fn<T>() {
  return Type.Refine(
    Type.Unsafe<T>({ description: 'a function' }),
    value => typeof value === 'function',
    () => 'must be a function'
  )
}
