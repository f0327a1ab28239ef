import { StoreUnavailableError } from '../errors.js'
import { within } from '../within.js'
import type { RedisClient } from './client.js'
import { Outage } from './outage.js'
import type { Awaitable, Entry, Facts, Store, Taken } from './store.js'

export interface NodesOptions {
  /** The node that has the keys of an identity, by its name; '' while that is not known. */
  nodeOf: (identity: string) => string
  /** How long a node may take, in milliseconds. */
  timeout: number
  /** Hears when a node is lost, with the error, and when it is back, without. */
  onChange: (error: unknown, node: string) => void
  /** Hears of each call that failed: another node may have taken the place of this one. */
  onFailure: () => void
  /** Whether an error is about what stands under a key, and tells nothing of the node. */
  isOfKey: (error: unknown) => boolean
}

/**
 * The nodes of a cluster, of which each may be lost alone: then decisions that need it fail at once, and others go on.
 * Each call is for one identity.
 */
export class Nodes implements Store {
  readonly name: string
  private readonly outages = new Map<string, Outage>()

  constructor(
    private readonly store: Store,
    private readonly options: NodesOptions
  ) {
    this.name = store.name
  }

  reserve(entries: readonly Entry[], token: string): Promise<Facts> {
    return this.ask(entries, () => this.store.reserve(entries, token))
  }

  peek(entries: readonly Entry[]): Promise<Facts> {
    return this.ask(entries, () => this.store.peek(entries))
  }

  refund(taken: readonly Taken[], token: string): Awaitable<void> {
    return this.store.refund(taken, token)
  }

  renew(entries: readonly Entry[], token: string): Awaitable<boolean> {
    return this.store.renew(entries, token)
  }

  clear(entries: readonly Entry[]): Awaitable<void> {
    return this.store.clear(entries)
  }

  block(entries: readonly Entry[], ms: number): Awaitable<void> {
    return this.store.block(entries, ms)
  }

  unblock(entries: readonly Entry[]): Awaitable<void> {
    return this.store.unblock(entries)
  }

  close(): Awaitable<void> {
    return this.store.close()
  }

  /** @returns the answer, however late it comes */
  private async ask([entry]: readonly Entry[], call: () => Awaitable<Facts>): Promise<Facts> {
    const { nodeOf, timeout, isOfKey, onFailure } = this.options
    const outage = this.outageOf(nodeOf(entry?.identity ?? ''))
    if (!outage.mayAsk()) throw new StoreUnavailableError()
    const answer = Promise.resolve(call())
    within(answer, timeout, () => new StoreUnavailableError()).then(
      () => outage.answered(),
      error => {
        if (isOfKey(error)) return
        outage.failed(error)
        onFailure()
      }
    )
    return answer
  }

  private outageOf(node: string): Outage {
    const known = this.outages.get(node)
    if (known !== undefined) return known
    const outage = new Outage(this.options.timeout, error => this.options.onChange(error, node))
    this.outages.set(node, outage)
    return outage
  }
}

/** Where the keys of an identity are, as far as the client of a cluster knows. @param prefix begins their names */
export function nodesOf(client: RedisClient, prefix: string): NodesOptions['nodeOf'] {
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
