import { kindOf } from '../limits/index.js'
import { type Answer, factsFrom, Value } from './answer.js'
import { Calls } from './calls.js'
import type { Argument, Binary, RedisClient } from './client.js'
import { Mixtures } from './mixtures.js'
import { retold, type Teller } from './retold.js'
import { type Script, scripts } from './scripts.js'
import { type Entry, EPOCH_MS, type Facts, type Store, type Taken, TICKS_PER_MS } from './store.js'

const NONE = Buffer.alloc(0)
/** By our clock; by that of Redis; and again, where one that was asked by our clock stood before it in the same call. */
const MOST_ASKED = 3

/** One Redis, one script call a decision at most; every process on it shares every limit. */
export class RedisStore implements Store, Teller {
  readonly name = 'redis'
  closed = false
  private readonly calls: Calls
  private readonly mixtures = new Mixtures()
  /** Begins the name of every identity's keys. */
  private readonly head: string
  // Redis's clock less ours, in milliseconds: which calendar periods to name to it.
  private ahead = 0

  /**
   * @param prefix begins the name of every key
   * @param timeout how long a call may take, in milliseconds
   */
  constructor(
    private readonly client: RedisClient,
    prefix: string,
    private readonly timeout = 1_000
  ) {
    this.calls = new Calls(client)
    this.head = `${prefix}{`
  }

  async reserve(entries: readonly Entry[], token: string): Promise<Facts> {
    for (let asked = 0; asked < MOST_ASKED; asked++) {
      const { now, values, admitted } = await this.decide(entries, token)
      if (admitted !== undefined) return factsFrom(entries, values, now, admitted)
      // Named by our clock, the periods missed Redis's: ask again by its own.
      this.setClock(now)
    }
    throw new Error('the calendar periods of Redis cannot be determined')
  }

  async peek(entries: readonly Entry[]): Promise<Facts> {
    const reply = await this.run(scripts.peek, entries)
    const [ticks, values] = reply as [number | string, (Buffer | null)[]]
    // As text, of a client with `stringNumbers`.
    const now = Number(ticks)
    this.setClock(now)
    const found = values.map(value => new Value(value ?? NONE, 0, value?.length ?? 0))
    return factsFrom(entries, found, now)
  }

  async refund(taken: readonly Taken[], token: string): Promise<void> {
    if (taken.length === 0) return
    const keys: string[] = []
    const what: (string | number)[] = [token]
    for (const { entry, receipt, ends } of taken) {
      const key = this.keyOf(entry)
      keys.push(key)
      if (entry.spec.kind === 'count') keys.push(`${key}:refunds`)
      what.push(kindOf(entry.spec).code, receipt, ends)
    }
    const tell = () => this.calls.call(scripts.refund, keys, [JSON.stringify(what)])
    await retold(tell, this, this.timeout)
  }

  async renew(entry: Entry, token: string): Promise<boolean> {
    const renewed = await this.run(scripts.renew, [entry], [token, ttlOf(entry)])
    // As text, of a client with `stringNumbers`.
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
    return (this.client as RedisClient & Binary).stream
  }

  /** The client is its owner's to close. */
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

  private decide(entries: readonly Entry[], token: string): Promise<Answer> {
    const script = this.mixtures.scriptFor(entries)
    const wall = Date.now() + this.ahead
    const args: Argument[] = []
    for (const entry of entries) {
      const argument = kindOf(entry.spec).argument(entry, wall, token)
      if (argument !== undefined) args.push(argument)
    }
    return this.run(script, entries, args) as Promise<Answer>
  }

  private keyOf({ identity, spec }: Entry): string {
    return `${this.head + identity}}:${spec.name}`
  }
}

// What is none of ours, of another type or another length; a slot that is half moved, the keys on both sides, so that a
// cluster's client is sent from one to the other, or one to whose place the client does not follow. Nor does somebody's
// open `MULTI` say anything of Redis (client.ts).
const OF_KEY =
  /\bWRONGTYPE\b|\bMULTI is open\b|data string too short|Cluster redirections.*\b(?:TRYAGAIN|MOVED|ASK)\b|^MOVED\b/

// Its memory is full, it is a replica, it cannot save, or has too few replicas; its user may not, or its cluster is down
// and may be read, in words of their own within a script.
const OF_WRITES =
  /\b(?:OOM|READONLY|MISCONF|NOREPLICAS|NOPERM)\b|can't run this command|ACL failure in script|cluster is down and readonly/

/** Whether an error says that Redis takes no writes, though it may still be read. */
export function isOfWrites(error: unknown): boolean {
  return error instanceof Error && OF_WRITES.test(error.message)
}

/** Whether an error is about what stands under a key, and says nothing of Redis. */
export function isOfKey(error: unknown): boolean {
  // A RangeError where it was this process that read too short a value, to look.
  if (error instanceof RangeError) return true
  return error instanceof Error && OF_KEY.test(error.message)
}

function ttlOf({ spec }: Entry): number {
  return spec.ttl
}
