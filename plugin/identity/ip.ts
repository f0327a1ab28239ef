import { isIP } from 'node:net'
import { memoizeEach } from './memoize.js'

/** The longest spelling of an address has 45 characters; the rest is room for brackets and a zone. */
const MAX_LENGTH = 80
/** The smallest network that a customer is given (RFC 6177). */
export const IPV6_PREFIX = 64
/** One address. */
export const IPV4_PREFIX = 32
/** IPv4 is `::ffff:0:0/96` here, which makes all its spellings one (RFC 4291 section 2.5.5.2). */
export const IPV4_BITS = 96
const MAPPED = [0, 0, 0, 0, 0, 0xffff]
const NAT64 = [0x64, 0xff9b, 0, 0, 0, 0]

/**
 * One form for all addresses of one network, or `undefined` where the text is no IP address.
 *
 * An IPv4 address stands for itself, also when it comes as an IPv4-mapped IPv6 address, or through NAT64 (the
 * well-known prefix `64:ff9b::/96`, RFC 6052 section 2.1). With an `ipv4Prefix` from 1 to 31 (32 when left out) it
 * stands for its network: `192.0.2.0/24`. Of any other IPv6 address the first `ipv6Prefix` bits count (1 to 128, 64
 * when left out), since all addresses behind them belong to one customer: `2001:db8::/64`. A zone (`%eth0`), the
 * brackets of a URL and a port (RFC 7239 section 6: some proxies forward it) are dropped.
 * @throws RangeError for a prefix out of range
 */
export function canonicalIp(
  text: string,
  ipv6Prefix = IPV6_PREFIX,
  ipv4Prefix = IPV4_PREFIX
): string | undefined {
  // For a client on a Unix socket `request.ip` is no string, whatever its type says.
  if (typeof text !== 'string') return undefined
  checkPrefix('ipv6Prefix', ipv6Prefix, 128)
  checkPrefix('ipv4Prefix', ipv4Prefix, IPV4_PREFIX)
  const address = isIP(text) === 4 ? text : read(text, ipv6Prefix)
  const whole = ipv4Prefix === IPV4_PREFIX || address === undefined || isIP(address) !== 4
  return whole ? address : ipv4Network(address, ipv4Prefix)
}

/** Remembered, since a request asks for several rules, and a client comes again. */
const read = memoizeEach(readIp)

function readIp(text: string, ipv6Prefix: number): string | undefined {
  const address = parseIp(text)
  if (address === undefined) return undefined
  return isIpv4(address) ? dotted(address) : `${printed(network(address, ipv6Prefix))}/${ipv6Prefix}`
}

function ipv4Network(address: string, prefix: number): string {
  return `${dotted(network([...MAPPED, ...ipv4Groups(address)], IPV4_BITS + prefix))}/${prefix}`
}

function checkPrefix(name: string, prefix: number, most: number): void {
  if (!(Number.isInteger(prefix) && prefix > 0 && prefix <= most))
    throw new RangeError(`${name} must be a whole number from 1 to ${most}, not ${prefix}`)
}

/** The eight groups of an address. Those of IPv4, also behind NAT64, are those of the IPv4-mapped address. */
export function parseIp(text: string): number[] | undefined {
  const groups = groupsOf(text)
  return groups !== undefined && isTranslated(groups) ? [...MAPPED, ...groups.slice(6)] : groups
}

/** Brackets around IPv6, and a port behind those or behind IPv4. */
const AROUND = /^(?:\[(.*:.*)\]|([\d.]+))(?::\d{1,5})?$/

/** The eight groups of an address as it is written. Those of IPv4 are those of the IPv4-mapped address. */
export function groupsOf(text: string): number[] | undefined {
  if (text.length > MAX_LENGTH) return undefined
  const version = isIP(text)
  if (version === 6) return ipv6Groups(text)
  if (version === 4) return [...MAPPED, ...ipv4Groups(text)]
  const [, ipv6, ipv4] = AROUND.exec(text) ?? []
  const bare = ipv6 ?? ipv4 ?? ''
  return isIP(bare) === 0 ? undefined : groupsOf(bare)
}

const [DOT, COLON, NINE] = [46, 58, 57]

// Reads character by character: new addresses come all the time, and splitting takes ten times as long.
function ipv6Groups(text: string): number[] {
  const zone = text.indexOf('%')
  const address = zone < 0 ? text : text.slice(0, zone)
  // An IPv4 address may stand in place of the last two groups.
  const end = address.includes('.') ? address.lastIndexOf(':') + 1 : address.length
  const groups = [0, 0, 0, 0, 0, 0, 0, 0]
  let count = 0
  let gap = 0
  let group = -1
  for (let i = 0; i < end; i++) {
    const code = address.charCodeAt(i)
    if (code !== COLON) {
      const digit = code <= NINE ? code - 48 : (code | 32) - 87
      group = group < 0 ? digit : (group << 4) | digit
      continue
    }
    if (group < 0) gap = count
    else groups[count++] = group
    group = -1
  }
  if (group >= 0) groups[count++] = group
  if (end < address.length) for (const each of ipv4Groups(address.slice(end))) groups[count++] = each
  // The groups behind the gap (`::`) move to the end.
  for (let to = 7; to >= gap; to--) {
    const from = to - 8 + count
    groups[to] = from < gap ? 0 : (groups[from] as number)
  }
  return groups
}

function ipv4Groups(text: string): [number, number] {
  let bits = 0
  let byte = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === DOT) {
      bits = (bits << 8) | byte
      byte = 0
    } else byte = byte * 10 + code - 48
  }
  return [bits >>> 8, ((bits & 0xff) << 8) | byte]
}

/** The last 32 bits, in dotted decimal. */
function dotted(groups: readonly number[]): string {
  const [a, b] = [groups[6] as number, groups[7] as number]
  return `${a >> 8}.${a & 0xff}.${b >> 8}.${b & 0xff}`
}

/** RFC 5952 section 4: lower case, no leading zeros, `::` for the first of the longest runs of zeros. */
function printed(groups: readonly number[]): string {
  let [start, end] = [0, 0]
  for (let i = 0, run = 0; i < 8; i++) {
    run = groups[i] === 0 ? run + 1 : 0
    if (run > end - start) [start, end] = [i + 1 - run, i + 1]
  }
  const text = (from: number, to: number) =>
    groups
      .slice(from, to)
      .map(group => group.toString(16))
      .join(':')
  return end - start < 2 ? text(0, 8) : `${text(0, start)}::${text(end, 8)}`
}

export function isIpv4(groups: readonly number[]): boolean {
  return MAPPED.every((group, i) => group === groups[i])
}

export function isTranslated(groups: readonly number[]): boolean {
  return NAT64.every((group, i) => group === groups[i])
}

/** The first address with the same `prefix` bits. */
export function network(groups: readonly number[], prefix: number): number[] {
  return groups.map((group, i) => group & ~hostMask(i, prefix))
}

/** The last address with the same `prefix` bits. */
export function lastOf(groups: readonly number[], prefix: number): number[] {
  return groups.map((group, i) => group | hostMask(i, prefix))
}

function hostMask(i: number, prefix: number): number {
  return 0xffff >> Math.min(Math.max(prefix - 16 * i, 0), 16)
}
