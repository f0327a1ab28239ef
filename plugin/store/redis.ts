import { boundaries } from '../calendar.js'
import { SecretMismatchError } from '../errors.js'
import { conclude, type Fields, readCount, readLock, readLog, toTicks } from './reading.js'
import { loadScript, type Script } from './scripts.js'
import { type CountSpec, type Entry, EPOCH_MS, type Facts, type Spec, type Store, type Taken, TICKS_PER_MS } from './store.js'

type Argument = string | number

/** What is asked of a Redis client; ioredis has it. */
export interface RedisClient {
  evalsha(sha: string, keys: number, ...args: Argument[]): Promise<unknown>
  eval(script: string, keys: number, ...args: Argument[]): Promise<unknown>
  callBuffer(command: string, ...args: Argument[]): Promise<unknown>
  set(key: string, value: string, ex: 'EX', seconds: number, nx?: 'NX'): Promise<unknown>
  get(key: string): Promise<string | null>
  info(section: string): Promise<string>
  isCluster?: boolean
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
const KIND = { log: 1, count: 2, lock: 3 }
const FINGERPRINT_SECONDS = 30 * 86_400

/** One Redis, one script call a decision; every process on it shares every limit. */
export class RedisStore implements Store {
  readonly name = 'redis'
  private readonly fragments = new Map<Spec, string>()
  // Redis's clock less ours, in milliseconds: which calendar periods to name to it.
  private ahead = 0

  /** @param prefix begins the name of every key */
  constructor(private readonly client: RedisClient, private readonly prefix: string) {}

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
      if (entry.spec.kind === 'log') readLog(facts, entry, value, now, blocked)
      else if (entry.spec.kind === 'count') readCount(facts, entry, value, now, blocked)
      else readLock(facts, value.length > 0 ? value.at(0) : 0, now)
    })
    conclude(facts, entries)
    return facts
  }

  async refund(taken: readonly Taken[], token: string): Promise<void> {
    const what = taken.flatMap(({ entry, receipt, ends }) => [KIND[entry.spec.kind], receipt, ends])
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
    if (await this.client.get(key) !== fingerprint) throw new SecretMismatchError(this.prefix)
    await this.client.set(key, fingerprint, 'EX', FINGERPRINT_SECONDS)
  }

  /** What this Redis may do to live keys when its memory is full; `noeviction`: nothing. */
  async evictionPolicy(): Promise<string> {
    return /maxmemory_policy:(\S+)/.exec(await this.client.info('memory'))?.[1] ?? 'noeviction'
  }

  private async ask(entries: readonly Entry[], token: string): Promise<number[]> {
    const specs = entries.map(entry => this.fragment(entry)).join(',')
    return (await this.run(scripts.reserve, this.keys(entries), [`[${specs}]`, token]) as unknown[]).map(Number)
  }

  private keys(entries: readonly Entry[]): string[] {
    return entries.map(({ identity, spec }) => `${this.prefix}{${identity}}:${spec.name}`)
  }

  private fragment({ spec, max }: Entry): string {
    if (spec.kind === 'count') return this.countFragment(spec, max?.[0] ?? spec.max)
    if (max && spec.kind === 'log') return fragmentOf({ ...spec, limits: spec.limits.map((limit, i) => ({ ...limit, max: max[i] ?? limit.max })) })
    let fragment = this.fragments.get(spec)
    if (fragment === undefined) this.fragments.set(spec, fragment = fragmentOf(spec))
    return fragment
  }

  private countFragment({ per, timeZone, rule, observed }: CountSpec, max: number): string {
    const ends = boundaries(per, timeZone, Date.now() + this.ahead).map(toTicks)
    return [KIND.count, rule, Number(observed), max, ...ends].join(',')
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

function fragmentOf(spec: Spec): string {
  const head = [KIND[spec.kind], spec.rule, Number(spec.observed), spec.ttl]
  if (spec.kind !== 'log') return head.join(',')
  return [...head, spec.keep, spec.limits.length, ...spec.limits.flatMap(limit => [limit.max, limit.window])].join(',')
}

function ttlOf({ spec }: Entry): number {
  return spec.ttl
}
