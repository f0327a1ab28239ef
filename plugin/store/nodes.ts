import type { RedisClient } from './client.js'
import type { Outage } from './outage.js'
import type { Entry } from './store.js'

/** The option `natMap` of a client that reaches nodes under other addresses than the cluster names. */
type NatMap = Record<string, Reached> | ((node: string) => Reached | null | undefined)

interface Reached {
  host: string
  port: number
}

/** What ioredis says when a connection is lost, or not made yet. */
const TURNED_AWAY = 'Connection is closed.'

/**
 * Keeps an outage for each node of a cluster, since each may be lost alone.
 * @param prefix begins the names of the keys
 * @param outageOf makes the outage of a node, '' while the node is not known
 * @returns what finds the outage for entries of one identity
 */
export function outagesOf(
  client: RedisClient,
  prefix: string,
  outageOf: (node: string) => Outage
): (entries: readonly Entry[]) => Outage {
  const nodeOf = nodesOf(client, prefix)
  const outages = new Map<string, Outage>()
  /** For each node a hash slot that it had: to search all slots takes longer than a decision. */
  const slots = new Map<string, number>()
  const hasSlots = (node: string) => {
    if (nodeAt(client, slots.get(node) ?? 0) === node) return true
    const slot = client.slots?.findIndex((_, at) => nodeAt(client, at) === node) ?? -1
    slots.set(node, slot)
    return slot >= 0
  }
  return ([entry]) => {
    const node = nodeOf(entry?.identity ?? '')
    // Nobody asks a node again that has lost its slots, nor '' once the nodes are known. So their outages end here.
    for (const [other, outage] of outages)
      if (node !== '' && outage.lost && !hasSlots(other)) outage.answered(true)
    const outage = outages.get(node) ?? outageOf(node)
    outages.set(node, outage)
    return outage
  }
}

/**
 * Finds the node that has the keys of an identity; '' where the client of the cluster does not know it.
 * @param prefix begins the names of the keys
 */
export function nodesOf(client: RedisClient, prefix: string): (identity: string) => string {
  const full = fullPrefix(client, prefix)
  return identity => nodeAt(client, slotOf(`${full}{${identity}}`)) ?? ''
}

/** The address at which the client reaches the node that has a hash slot; undefined where it is not known. */
function nodeAt({ slots, options }: RedisClient, slot: number): string | undefined {
  const node = slots?.[slot]?.[0]
  if (node === undefined) return undefined
  const { natMap } = (options ?? {}) as { natMap?: NatMap }
  // After a slot has moved, the client notes the address that the cluster names.
  const mapped = typeof natMap === 'function' ? natMap(node) : natMap?.[node]
  return mapped ? `${mapped.host}:${mapped.port}` : node
}

/** The prefix with the client's own (`keyPrefix`) before it. */
export function fullPrefix(client: RedisClient, prefix: string): string {
  const { keyPrefix = '' } = (client.options ?? {}) as { keyPrefix?: string }
  return keyPrefix + prefix
}

/**
 * Whether an error says nothing about the node that was asked. If the client is connected to that node, the command was
 * redirected to another one, and turned away because the client is still connecting there.
 */
export function isRedirectError(client: RedisClient, node: string, error: unknown): boolean {
  if (!(error instanceof Error) || error.message !== TURNED_AWAY) return false
  const asked = client.nodes?.('all').find(({ options }) => `${options.host}:${options.port}` === node)
  return asked?.status === 'ready'
}

/** Table of the CRC, by byte. */
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
