import { SecretMismatchError } from '../errors.js'
import { factsOf, kindOf } from '../limits/index.js'
import type { Fields } from '../limits/kind.js'
import { observedRefusals, readEntry } from './reading.js'
import { loadScript, type Script } from './scripts.js'
import {
  type Entry,
  EPOCH_MS,
  type Facts,
  type Spec,
  type Store,
  type Taken,
  TICKS_PER_MS,
  toTicks
} from './store.js'

type Argument = string | number

/** What is asked of a Redis client; ioredis has it. */
export interface RedisClient {
  evalsha(sha: string, keys: number, ...args: Argument[]): Promise<unknown>
  eval(script: string, keys: number, ...args: Argument[]): Promise<unknown>
  set(key: string, value: string, ex: 'EX', seconds: number, nx?: 'NX'): Promise<unknown>
  get(key: string): Promise<string | null>
  info(section: string): Promise<string>
  script(load: 'LOAD', text: string): Promise<unknown>
  isCluster?: boolean
  options?: object
  /** Of a cluster: its nodes, as far as they are known. */
  nodes?(role: 'master'): Pick<RedisClient, 'info' | 'script'>[]
}

/**
 * Calls that answer in bytes; every ioredis has them, its types do not. `callBuffer`, which they have, loses the name of
 * its command when the client pipelines by itself.
 */
interface Binary {
  evalshaBuffer: RedisClient['evalsha']
  evalBuffer: RedisClient['eval']
}

const scripts = {
  reserve: loadScript('reserve'),
  refund: loadScript('refund'),
  renew: loadScript('renew'),
  peek: loadScript('peek'),
  block: loadScript('block'),
  unblock: loadScript('unblock'),
  clear: loadScript('clear')
}
const FINGERPRINT_SECONDS = 30 * 86_400

/** One Redis, one script call a decision; every process on it shares every limit. */
export class RedisStore implements Store {
  readonly name = 'redis'
  // What the script is told of a spec, and until when that holds.
  private fragments = new WeakMap<Spec, { text: string; until: number }>()
  // Redis's clock less ours, in milliseconds: which calendar periods to name to it.
  private ahead = 0

  /** @param prefix begins the name of every key */
  constructor(
    private readonly client: RedisClient,
    private readonly prefix: string
  ) {}

  async reserve(entries: readonly Entry[], token: string): Promise<Facts> {
    const answer = await this.ask(entries, token)
    if (answer.admitted !== -1) return answered(entries, answer)
    // Named by our clock, the periods missed Redis's: ask once more by its own.
    this.ahead = answer.now / TICKS_PER_MS + EPOCH_MS - Date.now()
    this.fragments = new WeakMap()
    const again = await this.ask(entries, token)
    if (again.admitted === -1) throw new Error('the calendar periods of Redis cannot be told')
    return answered(entries, again)
  }

  async peek(entries: readonly Entry[]): Promise<Facts> {
    const reply = await this.run(scripts.peek, this.keys(entries), [], true)
    const [seconds, micros, values] = reply as [Buffer, Buffer, (Buffer | null)[]]
    // In whole numbers, as the scripts do it: milliseconds with a fraction would be a tick off.
    const now = toTicks(Number(seconds) * 1_000) + Math.floor(Number(micros) / 10)
    return answered(entries, { now, values })
  }

  async refund(taken: readonly Taken[], token: string): Promise<void> {
    const what = taken.flatMap(({ entry, receipt, ends }) => [kindOf(entry.spec).code, receipt, ends])
    await this.run(scripts.refund, this.keys(taken.map(each => each.entry)), [JSON.stringify(what), token])
  }

  async renew(entries: readonly Entry[], token: string): Promise<boolean> {
    const renewed = await this.run(scripts.renew, this.keys(entries), [token, ...entries.map(ttlOf)])
    return renewed === entries.length
  }

  async clear(entries: readonly Entry[]): Promise<void> {
    await this.run(scripts.clear, this.keys(entries), [])
  }

  async block(entries: readonly Entry[], ms: number): Promise<void> {
    await this.run(scripts.block, this.keys(entries), [ms, ...entries.map(ttlOf)])
  }

  async unblock(entries: readonly Entry[]): Promise<void> {
    await this.run(scripts.unblock, this.keys(entries), entries.map(ttlOf))
  }

  /** Whether the client sends a command again whose answer was lost with the connection: it may then count twice. */
  get resends(): boolean {
    const { isCluster, options = {} } = this.client
    const { autoResendUnfulfilledCommands } = options as { autoResendUnfulfilledCommands?: boolean }
    return isCluster !== true && autoResendUnfulfilledCommands !== false
  }

  /** The client is its owner's to close. */
  close(): void {}

  /**
   * Compares this process's secret with that of the others on this Redis.
   * @param fingerprint a hash of the secret
   * @throws SecretMismatchError when they use another
   */
  async verify(fingerprint: string): Promise<void> {
    const key = `${this.prefix}secret`
    await this.client.set(key, fingerprint, 'EX', FINGERPRINT_SECONDS, 'NX')
    if ((await this.client.get(key)) !== fingerprint) throw new SecretMismatchError(this.prefix)
    await this.client.set(key, fingerprint, 'EX', FINGERPRINT_SECONDS)
  }

  /** Brings the scripts to Redis, to every master of a cluster, so that none is sent whole when a request waits. */
  async load(): Promise<void> {
    await Promise.all(
      this.nodes().flatMap(node => Object.values(scripts).map(({ text }) => node.script('LOAD', text)))
    )
  }

  /** What this Redis, or any master of a cluster, may do to live keys when its memory is full; `noeviction`: nothing. */
  async evictionPolicy(): Promise<string> {
    const found = await Promise.all(
      this.nodes().map(
        async node => /maxmemory_policy:(\S+)/.exec(await node.info('memory'))?.[1] ?? 'noeviction'
      )
    )
    return found.find(policy => policy !== 'noeviction') ?? 'noeviction'
  }

  private nodes(): Pick<RedisClient, 'info' | 'script'>[] {
    return this.client.nodes?.('master') ?? [this.client]
  }

  private async ask(entries: readonly Entry[], token: string): Promise<Answer> {
    const args: Argument[] = [entries.map(entry => this.fragment(entry)).join('')]
    if (entries.some(({ spec }) => spec.kind === 'lock')) args.push(token)
    const values = (await this.run(scripts.reserve, this.keys(entries), args, true)) as (Buffer | null)[]
    const [now, admitted] = values.splice(-2).map(Number) as [number, number]
    return { now, admitted, values }
  }

  private keys(entries: readonly Entry[]): string[] {
    return entries.map(({ identity, spec }) => `${this.prefix}{${identity}}:${spec.name}`)
  }

  private fragment({ spec, max, value = 0 }: Entry): string {
    const wall = Date.now() + this.ahead
    const known = max ? undefined : this.fragments.get(spec)
    if (known && wall < known.until) return known.text
    const { code, describe, holds } = kindOf(spec)
    const numbers = [code, spec.observed ? spec.rule : -1, spec.ttl, ...describe(spec, max, wall, value)]
    const text = numbers.map(number => `${number}\0`).join('')
    if (!max) this.fragments.set(spec, { text, until: holds(spec, wall) })
    return text
  }

  private async run(script: Script, keys: string[], args: Argument[], binary = false): Promise<unknown> {
    const client = this.client as RedisClient & Binary
    try {
      return binary
        ? await client.evalshaBuffer(script.sha, keys.length, ...keys, ...args)
        : await client.evalsha(script.sha, keys.length, ...keys, ...args)
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      return binary
        ? client.evalBuffer(script.text, keys.length, ...keys, ...args)
        : client.eval(script.text, keys.length, ...keys, ...args)
    }
  }
}

/** What a script found: the clock in ticks, what it decided if it did, and the values from before that. */
interface Answer {
  now: number
  admitted?: number
  values: readonly (Buffer | null | undefined)[]
}

/** The facts of an answer: read here, not in Redis, whose time is everybody's. */
function answered(entries: readonly Entry[], { now: ticks, admitted, values }: Answer): Facts {
  const now = { steady: ticks, wall: ticks, fresh: ticks }
  const facts = [ticks, 1]
  const fields = values.map(value => new Value(value))
  entries.forEach((entry, i) => {
    const value = fields[i] as Value
    readEntry(facts, entry, value, now, value.blockedUntil() > ticks)
  })
  if (admitted === undefined) return facts
  facts[1] = admitted
  if (admitted === 0) return facts
  const skipped = observedRefusals(entries, facts)
  let head = 2
  entries.forEach(({ spec }, i) => {
    if (!skipped?.has(spec.rule)) facts[head + 1] = kindOf(spec).receipt(fields[i] as Value, now)
    head += factsOf(spec)
  })
  return facts
}

/** A Redis value as fields: six bytes each; a blocked one ends in six more and a `B`. */
class Value implements Fields {
  readonly length: number

  constructor(private readonly bytes: Buffer | null | undefined) {
    this.length = bytes ? Math.floor((bytes.length - (bytes.length % 6 === 1 ? 7 : 0)) / 6) : 0
  }

  at(index: number): number {
    return this.bytes?.readUIntBE(index * 6, 6) ?? 0
  }

  blockedUntil(): number {
    return this.bytes && this.bytes.length % 6 === 1 ? this.at(this.length) : 0
  }
}

function ttlOf({ spec }: Entry): number {
  return spec.ttl
}
