import { isIP } from 'node:net'
import { rememberingEach } from './remembering.js'

/** The longest spelling of an address has 45 characters; the rest is room for brackets and a zone. */
const MAX_LENGTH = 80
/** What one customer is given at least (RFC 6177). */
export const IPV6_PREFIX = 64
/** One address. */
export const IPV4_PREFIX = 32
/** IPv4 is `::ffff:0:0/96` here, which makes all its spellings one (RFC 4291 section 2.5.5.2). */
const IPV4_BITS = 96
const MAPPED = [0, 0, 0, 0, 0, 0xffff]
const NAT64 = [0x64, 0xff9b, 0, 0, 0, 0]

/**
 * One form for all addresses of one network, or `undefined` where the text is no IP address.
 *
 * An IPv4 address stands for itself, also when it comes as an IPv4-mapped IPv6 address, or by a translator (NAT64's
 * well-known prefix `64:ff9b::/96`, RFC 6052 section 2.1); with an `ipv4Prefix` from 1 to 31 for its network:
 * `192.0.2.0/24`. Of any other IPv6 address the first `ipv6Prefix` bits count (1 to 128, 64 when left out), since what is
 * behind them belongs to one customer: `2001:db8::/64`. A zone (`%eth0`), the brackets of a URL and a port (RFC 7239
 * section 6: some proxies forward it) are dropped.
 * @throws RangeError for a prefix that is none
 */
export function canonicalIp(
  text: string,
  ipv6Prefix = IPV6_PREFIX,
  ipv4Prefix = IPV4_PREFIX
): string | undefined {
  // Of a client on a Unix socket `request.ip` is no text, whatever its type says.
  if (typeof text !== 'string') return undefined
  checkPrefix('ipv6Prefix', ipv6Prefix, 128)
  checkPrefix('ipv4Prefix', ipv4Prefix, IPV4_PREFIX)
  const address = isIP(text) === 4 ? text : read(text, ipv6Prefix)
  const whole = ipv4Prefix === IPV4_PREFIX || address === undefined || isIP(address) !== 4
  return whole ? address : ipv4Network(address, ipv4Prefix)
}

const ipv4Network = rememberingEach((address: string, prefix: number) => {
  return `${dotted(network([...MAPPED, ...numbers(address)], IPV4_BITS + prefix))}/${prefix}`
})

function checkPrefix(name: string, prefix: number, most: number): void {
  if (!(Number.isInteger(prefix) && prefix > 0 && prefix <= most))
    throw new RangeError(`${name} must be a whole number from 1 to ${most}, not ${prefix}`)
}

const read = rememberingEach(readIp)

function readIp(text: string, ipv6Prefix: number): string | undefined {
  const address = parse(text)
  if (address === undefined) return undefined
  if (isIpv4(address)) return dotted(address)
  return `${printed(network(address, ipv6Prefix))}/${ipv6Prefix}`
}

/**
 * Compiles addresses and CIDR ranges into a test for a client's address, in any spelling of it.
 *
 * A range covers what it is written for: `::/0` is all of IPv6 and no IPv4. Bits behind a prefix are ignored.
 * The time of a test depends on how many different prefixes there are, not on how many entries.
 * @throws TypeError naming the entry that is neither an address nor a range.
 */
export function compileIpList(entries: readonly string[]): (address: string) => boolean {
  const byPrefix = new Map<number, Set<string>>()
  for (const entry of entries) {
    const [base, prefix] = range(entry)
    const networks = byPrefix.get(prefix) ?? new Set()
    byPrefix.set(prefix, networks.add(network(base, prefix).join()))
  }
  return text => {
    // As in `canonicalIp`.
    const address = typeof text === 'string' ? parse(text) : undefined
    if (address === undefined) return false
    const ipv4 = isIpv4(address)
    for (const [prefix, networks] of byPrefix) {
      if (ipv4 && prefix < IPV4_BITS) continue
      if (networks.has(network(address, prefix).join())) return true
    }
    return false
  }
}

function range(entry: string): [base: number[], prefix: number] {
  const [, text = '', bits] = /^([0-9a-f:.]+)(?:\/(0|[1-9][0-9]{0,2}))?$/i.exec(entry) ?? []
  const base = groupsOf(text)
  if (base === undefined) {
    throw new TypeError(`${JSON.stringify(entry)} is neither an IP address nor a range such as 192.0.2.0/24`)
  }
  const prefix = bits === undefined ? 128 : Number(bits) + (isIP(text) === 4 ? IPV4_BITS : 0)
  if (prefix > 128) throw new TypeError(`${JSON.stringify(entry)} has a prefix longer than its address`)
  if (isTranslated(base)) {
    throw new TypeError(`${JSON.stringify(entry)} is IPv4 behind NAT64. Write it as IPv4`)
  }
  if (isIpv4(base) && prefix < IPV4_BITS) {
    throw new TypeError(`${JSON.stringify(entry)} has an IPv4 address in it, so its prefix is at least 96`)
  }
  return [base, prefix]
}

/** Brackets around IPv6, and a port behind those or behind IPv4. */
const AROUND = /^(?:\[(.*:.*)\]|([\d.]+))(?::\d{1,5})?$/

/** The eight groups of an address, those of IPv4 mapped, however it comes. */
function parse(text: string): number[] | undefined {
  const groups = groupsOf(text)
  return groups !== undefined && isTranslated(groups) ? [...MAPPED, ...groups.slice(6)] : groups
}

/** The eight groups of an address as it is written, those of IPv4 mapped. */
function groupsOf(text: string): number[] | undefined {
  if (text.length > MAX_LENGTH) return undefined
  const [, ipv6, ipv4] = AROUND.exec(text) ?? []
  const bare = ipv6 ?? ipv4 ?? text
  const version = isIP(bare)
  if (version === 0) return undefined
  if (version === 4) return [...MAPPED, ...numbers(bare)]
  const [left = [], right = []] = bare
    .replace(/%.*$/, '')
    .split('::')
    .map(half => (half === '' ? [] : half.split(':').flatMap(numbers)))
  return [...left, ...Array<number>(8 - left.length - right.length).fill(0), ...right]
}

function numbers(group: string): number[] {
  if (!group.includes('.')) return [Number.parseInt(group, 16)]
  const [a, b, c, d] = group.split('.').map(Number) as [number, number, number, number]
  return [(a << 8) | b, (c << 8) | d]
}

/** The last 32 bits. */
function dotted(groups: readonly number[]): string {
  return groups
    .slice(6)
    .flatMap(group => [group >> 8, group & 0xff])
    .join('.')
}

/** RFC 5952 section 4: lower case, no leading zeros, `::` for the first of the longest runs of zeros. */
function printed(groups: readonly number[]): string {
  const text = groups.map(group => group.toString(16)).join(':')
  const [run] = text.match(/\b0(?::0)+/g)?.sort((a, b) => b.length - a.length) ?? []
  return run === undefined ? text : text.replace(new RegExp(`(?:^|:)${run}(?::|$)`), '::')
}

function isIpv4(groups: readonly number[]): boolean {
  return MAPPED.every((group, i) => group === groups[i])
}

function isTranslated(groups: readonly number[]): boolean {
  return NAT64.every((group, i) => group === groups[i])
}

function network(groups: readonly number[], prefix: number): number[] {
  return groups.map((group, index) => {
    const hostBits = Math.min(Math.max(16 * (index + 1) - prefix, 0), 16)
    return (group >> hostBits) << hostBits
  })
}
