import type { RedisClient } from './client.js'
import type { Outage } from './outage.js'
import type { Entry } from './store.js'

/** The client's option by which it reaches nodes under other names than the cluster gives them. */
type NatMap = Record<string, Reached> | ((node: string) => Reached | null | undefined)

interface Reached {
  host: string
  port: number
}

/** What ioredis says of a connection that is lost, and of one that is not there yet. */
const TURNED_AWAY = 'Connection is closed.'

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
  /** For each node a slot that it had: to look through all slots takes longer than a decision. */
  const slots = new Map<string, number>()
  const hasSlots = (node: string) => {
    if (nodeAt(client, slots.get(node) ?? 0) === node) return true
    const slot = client.slots?.findIndex((_, at) => nodeAt(client, at) === node) ?? -1
    slots.set(node, slot)
    return slot >= 0
  }
  return ([entry]) => {
    const node = nodeOf(entry?.identity ?? '')
    // Nobody would ask again a node that has no slots any more, nor '' once it is known who has which: their outages end.
    for (const [other, outage] of outages)
      if (node !== '' && outage.lost && !hasSlots(other)) outage.answered(true)
    const outage = outages.get(node) ?? outageOf(node)
    outages.set(node, outage)
    return outage
  }
}

/** The node that has the keys of an identity, as far as the client of a cluster knows. @param prefix begins their names */
export function nodesOf(client: RedisClient, prefix: string): (identity: string) => string {
  const full = fullPrefix(client, prefix)
  return identity => nodeAt(client, slotOf(`${full}{${identity}}`)) ?? ''
}

/** The node that has a slot, as the client reaches it, where that is known. */
function nodeAt({ slots, options }: RedisClient, slot: number): string | undefined {
  const node = slots?.[slot]?.[0]
  if (node === undefined) return undefined
  const { natMap } = (options ?? {}) as { natMap?: NatMap }
  // When a slot has moved, the client notes the name that the cluster gives.
  const mapped = typeof natMap === 'function' ? natMap(node) : natMap?.[node]
  return mapped ? `${mapped.host}:${mapped.port}` : node
}

/** With that of the client before it. */
export function fullPrefix(client: RedisClient, prefix: string): string {
  const { keyPrefix = '' } = (client.options ?? {}) as { keyPrefix?: string }
  return keyPrefix + prefix
}

/**
 * Whether an error says nothing of the node that was asked: a client turns commands away while it connects to another one,
 * to which they were sent on.
 */
export function isOfOther(client: RedisClient, node: string, error: unknown): boolean {
  if (!(error instanceof Error) || error.message !== TURNED_AWAY) return false
  const asked = client.nodes?.('all').find(({ options }) => `${options.host}:${options.port}` === node)
  return asked?.status === 'ready'
}

/** What a byte makes of the CRC before it. */
const CRC = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc
})

/** The hash slot of a key: CRC-16/XMODEM of its hash tag (Redis Cluster specification). */
export function slotOf(key: string): number {
  const [, tag = key] = /^[^{]*\{([^}]+)\}/.exec(key) ?? []
  let crc = 0
  for (const byte of Buffer.from(tag)) crc = ((crc & 0xff) << 8) ^ (CRC[(crc >> 8) ^ byte] as number)
  return crc & 0x3fff
}
