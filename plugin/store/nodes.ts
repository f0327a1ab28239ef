import type { RedisClient } from './client.js'
import type { Outage } from './outage.js'
import type { Entry } from './store.js'

/**
 * The outages of a cluster's nodes, of which each may be lost alone; asked for entries of one identity.
 * @param prefix begins the names of its keys
 * @param outageOf makes that of a node, '' while it is not known
 */
export function outagesOf(
  client: RedisClient,
  prefix: string,
  outageOf: (node: string) => Outage
): (entries: readonly Entry[]) => Outage {
  const nodeOf = nodesOf(client, prefix)
  const outages = new Map<string, Outage>()
  return ([entry]) => {
    const node = nodeOf(entry?.identity ?? '')
    // Once it is known who has which slots, nobody asks about '' again.
    if (node !== '') outages.get('')?.answered(true)
    const outage = outages.get(node) ?? outageOf(node)
    outages.set(node, outage)
    return outage
  }
}

/** The node that has the keys of an identity, as far as the client of a cluster knows. @param prefix begins their names */
export function nodesOf(client: RedisClient, prefix: string): (identity: string) => string {
  const { keyPrefix = '' } = (client.options ?? {}) as { keyPrefix?: string }
  return identity => client.slots?.[slotOf(`${keyPrefix}${prefix}{${identity}}`)]?.[0] ?? ''
}

/** The hash slot of a key: CRC-16/XMODEM of its hash tag (Redis Cluster specification). */
export function slotOf(key: string): number {
  const [, tag = key] = /^[^{]*\{([^}]+)\}/.exec(key) ?? []
  let crc = 0
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  }
  return crc & 0x3fff
}
