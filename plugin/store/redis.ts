import { kindOf } from '../limits/index.js'
import { type Answer, factsFrom, Value } from './answer.js'
import { Calls } from './calls.js'
import { type Argument, type IoredisExtras, isSharded, type RedisClient } from './client.js'
import type { Facts } from './facts.js'
import { Mixtures, pastOf } from './mixtures.js'
import { type Caller, retry } from './retry.js'
import { type Script, scripts } from './scripts.js'
import { type Entry, EPOCH_MS, type Store, specInForce, type Taken, TICKS_PER_MS } from './store.js'

const NONE = Buffer.alloc(0)
/**
 * How often a decision is asked for: by this process's clock, then by Redis's, and once more where it shared the second
 * call with a decision that still went by this process's clock.
 */
const MOST_ASKED = 3

/**
 * A Redis server or cluster. A decision takes one script call or shares one; if the calendar periods in the call do not
 * contain Redis's clock, it takes more. All processes on it share every limit.
 */
export class RedisStore implements Store, Caller {
  readonly name = 'redis'
  closed = false
  private readonly calls: Calls
  private readonly mixtures = new Mixtures()
  /** Begins the name of every identity's keys. */
  private readonly head: string
  // Redis's clock less this process's, in milliseconds. It tells which calendar periods to name in a call.
  private ahead = 0

  /**
   * @param prefix begins the name of every key
   * @param timeout how long a call may take, in milliseconds
   * @param sharded whether keys of different identities may be on different nodes
   */
  constructor(
    private readonly client: RedisClient,
    prefix: string,
    private readonly timeout = 1_000,
    sharded = isSharded(client)
  ) {
    this.calls = new Calls(client, sharded)
    this.head = `${prefix}{`
  }

  reserve(entries: readonly Entry[], token: string): Promise<Facts> {
    return this.decide(this.mixtures.scriptFor(entries), entries, token)
  }

  async count(entry: Entry, ago: number, ends = 0): Promise<number> {
    if (ago >= specInForce(entry.spec).ttl * TICKS_PER_MS) return 0
    const past = boundless(entry)
    const [, admitted, , receipt = 0] = await this.decide(pastOf(past), [past], '', { ago, ends })
    return admitted === 1 ? receipt : 0
  }

  async peek(entries: readonly Entry[]): Promise<Facts> {
    const reply = await this.run(scripts.peek, entries)
    const [ticks, values] = reply as [number | string, (Buffer | null)[]]
    // A client with `stringNumbers` gives text.
    const now = Number(ticks)
    this.setClock(now)
    const found = values.map(value => new Value(value ?? NONE, 0, value?.length ?? 0))
    return factsFrom(entries, found, now)
  }

  async refund(taken: readonly Taken[], token: string, late?: () => void): Promise<void> {
    if (taken.length === 0) return
    const keys: string[] = []
    const args: (string | number)[] = [token]
    for (const { entry, receipt, ends } of taken) {
      const key = this.keyOf(entry)
      keys.push(key)
      if (entry.spec.kind === 'count') keys.push(`${key}:refunds`)
      args.push(kindOf(entry.spec).code, receipt, ends, entry.cost ?? 1)
    }
    const refund = () => this.calls.call(scripts.refund, keys, [JSON.stringify(args)])
    await retry(refund, this, this.timeout, late)
  }

  async renew(entry: Entry, token: string): Promise<boolean> {
    const renewed = await this.run(scripts.renew, [entry], [token, ttlOf(entry)])
    // A client with `stringNumbers` gives text.
    return Number(renewed) === 1
  }

  async clear(entries: readonly Entry[]): Promise<void> {
    await this.run(scripts.clear, entries)
  }

  async block(entries: readonly Entry[], ms: number): Promise<void> {
    await this.run(scripts.block, entries, [ms, ...entries.map(ttlOf)])
  }

  async unblock(entries: readonly Entry[]): Promise<void> {
    await this.run(scripts.unblock, entries, entries.map(ttlOf))
  }

  get connection(): unknown {
    return (this.client as RedisClient & IoredisExtras).stream
  }

  /** Leaves the client open: its owner closes it. */
  close(): void {
    this.closed = true
  }

  private setClock(now: number): void {
    this.ahead = now / TICKS_PER_MS + EPOCH_MS - Date.now()
  }

  private run(script: Script, entries: readonly Entry[], args: readonly Argument[] = []): Promise<unknown> {
    const keys = entries.map(entry => this.keyOf(entry))
    return this.calls.call(script, keys, args)
  }

  /** @param past how long ago it was decided elsewhere, and the end of its period there; left out: it is decided now */
  private async decide(
    script: Script,
    entries: readonly Entry[],
    token: string,
    past?: { ago: number; ends: number }
  ): Promise<Facts> {
    const ago = past?.ago ?? 0
    for (let asked = 0; asked < MOST_ASKED; asked++) {
      const wall = Date.now() + this.ahead - ago / TICKS_PER_MS
      const args: Argument[] = past ? [ago, past.ends] : []
      for (const entry of entries) {
        const argument = kindOf(entry.spec).argument(entry, wall, token)
        if (argument !== undefined) args.push(argument)
      }
      const { now, values, admitted } = (await this.run(script, entries, args)) as Answer
      if (admitted !== undefined) return factsFrom(entries, values, now - ago, admitted, now)
      // The calendar periods that were named do not contain Redis's clock: ask again, by that clock.
      this.setClock(now)
    }
    throw new Error('the calendar periods of Redis cannot be determined')
  }

  private keyOf({ identity, spec }: Entry): string {
    return `${this.head + identity}}:${spec.name}`
  }
}

function ttlOf({ spec }: Entry): number {
  return spec.ttl
}

/** The same entry without limits. A calendar limit has to have one, so its `max` is out of reach. */
function boundless(entry: Entry): Entry {
  const { spec } = entry
  const limits = spec.kind === 'count' ? spec.limits.map(limit => ({ ...limit, max: 2 ** 48 })) : []
  return { ...entry, max: undefined, spec: { ...spec, limits } }
}
