import { SecretMismatchError } from '../errors.js'
import { kindOf } from '../limits/index.js'
import type { Fields } from '../limits/kind.js'
import { readEntry } from './reading.js'
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
  callBuffer(command: string, ...args: Argument[]): Promise<unknown>
  set(key: string, value: string, ex: 'EX', seconds: number, nx?: 'NX'): Promise<unknown>
  get(key: string): Promise<string | null>
  info(section: string): Promise<string>
  script(load: 'LOAD', text: string): Promise<unknown>
  isCluster?: boolean
  options?: object
  /** Of a cluster: its nodes, as far as they are known. */
  nodes?(role: 'master'): Pick<RedisClient, 'info' | 'script'>[]
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
  private readonly fragments = new WeakMap<Spec, string>()
  // Redis's clock less ours, in milliseconds: which calendar periods to name to it.
  private ahead = 0

  /** @param prefix begins the name of every key */
  constructor(
    private readonly client: RedisClient,
    private readonly prefix: string
  ) {}

  async reserve(entries: readonly Entry[], token: string): Promise<Facts> {
    const facts = await this.ask(entries, token)
    if (facts[1] !== -1) return facts
    // Named by our clock, the periods missed Redis's: ask once more by its own.
    this.ahead = (facts[0] as number) / TICKS_PER_MS + EPOCH_MS - Date.now()
    const again = await this.ask(entries, token)
    if (again[1] === -1) throw new Error('the calendar periods of Redis cannot be told')
    return again
  }

  async peek(entries: readonly Entry[]): Promise<Facts> {
    const reply = await this.run(scripts.peek, this.keys(entries), [], true)
    const [seconds, micros, values] = reply as [Buffer, Buffer, (Buffer | null)[]]
    // In whole numbers, as the scripts do it: milliseconds with a fraction would be a tick off.
    const now = toTicks(Number(seconds) * 1_000) + Math.floor(Number(micros) / 10)
    const facts = [now, 1]
    entries.forEach((entry, i) => {
      const value = new Value(values[i])
      const blocked = value.blockedUntil() > now
      readEntry(facts, entry, value, { steady: now, wall: now, fresh: now }, blocked)
    })
    return facts
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

  private async ask(entries: readonly Entry[], token: string): Promise<number[]> {
    const specs = entries.map(entry => this.fragment(entry)).join(',')
    return ((await this.run(scripts.reserve, this.keys(entries), [`[${specs}]`, token])) as unknown[]).map(
      Number
    )
  }

  private keys(entries: readonly Entry[]): string[] {
    return entries.map(({ identity, spec }) => `${this.prefix}{${identity}}:${spec.name}`)
  }

  private fragment({ spec, max, value = 0 }: Entry): string {
    const { code, describe, timeless } = kindOf(spec)
    const make = () => [code, ...describe(spec, max, Date.now() + this.ahead, value)].join(',')
    if (!timeless || max) return make()
    let fragment = this.fragments.get(spec)
    if (fragment === undefined) this.fragments.set(spec, (fragment = make()))
    return fragment
  }

  private async run(script: Script, keys: string[], args: Argument[], binary = false): Promise<unknown> {
    const { client } = this
    try {
      return binary
        ? await client.callBuffer('EVALSHA', script.sha, keys.length, ...keys, ...args)
        : await client.evalsha(script.sha, keys.length, ...keys, ...args)
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      return binary
        ? client.callBuffer('EVAL', script.text, keys.length, ...keys, ...args)
        : client.eval(script.text, keys.length, ...keys, ...args)
    }
  }
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
