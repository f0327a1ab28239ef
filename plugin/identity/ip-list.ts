import { isIP } from 'node:net'
import { show } from '../mistakes.js'
import { groupsOf, IPV4_BITS, isIpv4, isTranslated, lastOf, network, parseIp } from './ip.js'

/**
 * Compiles addresses and CIDR ranges into a test for a client's address, in any spelling of it.
 *
 * A range covers what it is written for: `::/0` is all of IPv6 and no IPv4. Bits behind a prefix are ignored. The time
 * of a test grows with the logarithm of the number of entries.
 * @throws TypeError when `entries` is no list, or for an entry, which the error names: it is neither an address nor a
 *   range, its prefix is too long, or it is a range of IPv6 that stands for IPv4 (NAT64, or mapped and beyond /96)
 */
export function compileIpList(entries: readonly string[]): (address: string) => boolean {
  if (!Array.isArray(entries)) throw new TypeError("compileIpList takes a list, such as ['192.0.2.0/24']")
  const ranges = entries.map(rangeOf)
  const inIpv4 = covering(ranges.filter(({ ipv4 }) => ipv4))
  const inIpv6 = covering(ranges.filter(({ ipv4 }) => !ipv4))
  return text => {
    // As in `canonicalIp`, the address of a client on a Unix socket is no string.
    const address = typeof text === 'string' ? parseIp(text) : undefined
    if (address === undefined) return false
    return (isIpv4(address) ? inIpv4 : inIpv6)(textOf(address))
  }
}

interface Range {
  ipv4: boolean
  first: string
  last: string
}

/** An address as eight characters, so that `<` compares addresses. */
function textOf(groups: readonly number[]): string {
  return String.fromCharCode(...groups)
}

/** Makes a test whether one of the ranges covers an address. */
function covering(ranges: readonly Range[]): (address: string) => boolean {
  const sorted = [...ranges].sort((a, b) => Number(a.first > b.first) - Number(a.first < b.first))
  // Of two CIDR ranges that overlap, one contains the other, so the outer ones suffice.
  const apart: Range[] = []
  for (const each of sorted) if (each.last > (apart.at(-1)?.last ?? '')) apart.push(each)
  return address => {
    let [from, to] = [0, apart.length]
    while (from < to) {
      const middle = (from + to) >> 1
      if ((apart[middle] as Range).last < address) from = middle + 1
      else to = middle
    }
    const range = apart[from]
    return range !== undefined && range.first <= address
  }
}

function rangeOf(entry: string): Range {
  const [, text = '', bits] = /^([0-9a-f:.]+)(?:\/(0|[1-9][0-9]{0,2}))?$/i.exec(entry) ?? []
  const base = groupsOf(text)
  if (base === undefined) {
    throw new TypeError(`${show(entry)} is neither an IP address nor a range such as 192.0.2.0/24`)
  }
  const ipv4 = isIpv4(base)
  const prefix = bits === undefined ? 128 : Number(bits) + (isIP(text) === 4 ? IPV4_BITS : 0)
  if (prefix > 128) throw new TypeError(`${show(entry)} has a prefix longer than its address`)
  if (isTranslated(base)) {
    throw new TypeError(`${show(entry)} is IPv4 behind NAT64. Write it as IPv4`)
  }
  if (ipv4 && prefix < IPV4_BITS) {
    throw new TypeError(`${show(entry)} has an IPv4 address in it, so its prefix is at least 96`)
  }
  return { ipv4, first: textOf(network(base, prefix)), last: textOf(lastOf(base, prefix)) }
}
