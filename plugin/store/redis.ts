import { SecretMismatchError } from '../errors.js'
import { kindOf } from '../limits/index.js'
import { decided, factsFrom, Value } from './answer.js'
import { Batch, type Corkable } from './batch.js'
import { anyMixture, Mixtures, policyOf } from './mixtures.js'
import { loadScript, type Script } from './scripts.js'
import { type Entry, EPOCH_MS, type Facts, type Store, type Taken, TICKS_PER_MS, toTicks } from './store.js'

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
 * What every ioredis has and its types lack: calls that answer in bytes. `callBuffer`, which they have, loses the name of
 * its command when the client pipelines by itself.
 */
interface Binary {
  evalshaBuffer: RedisClient['evalsha']
  evalBuffer: RedisClient['eval']
  /** Of its connection; a cluster has none. */
  stream?: Corkable
}

const scripts = {
  refund: loadScript('refund'),
  renew: loadScript('renew'),
  peek: loadScript('peek'),
  block: loadScript('block'),
  unblock: loadScript('unblock'),
  clear: loadScript('clear')
}
const loaded = [anyMixture, ...Object.values(scripts)]
const NONE = Buffer.alloc(0)
const FINGERPRINT_SECONDS = 30 * 86_400

/** One Redis, one script call a decision; every process on it shares every limit. */
export class RedisStore implements Store {
  readonly name = 'redis'
  private readonly client: RedisClient & Binary
  private readonly mixtures = new Mixtures()
  private readonly batch = new Batch()
  /** Begins the name of every identity's keys. */
  private readonly head: string
  // Redis's clock less ours, in milliseconds: which calendar periods to name to it.
  private ahead = 0

  /** @param prefix begins the name of every key */
  constructor(
    client: RedisClient,
    private readonly prefix: string
  ) {
    this.client = client as RedisClient & Binary
    this.head = `${prefix}{`
  }

  reserve(entries: readonly Entry[], token: string): Promise<Facts> {
    return this.decide(entries, token, now => {
      // Named by our clock, the periods missed Redis's: ask once more by its own.
      this.ahead = now / TICKS_PER_MS + EPOCH_MS - Date.now()
      return this.decide(entries, token, () => {
        throw new Error('the calendar periods of Redis cannot be told')
      })
    })
  }

  async peek(entries: readonly Entry[]): Promise<Facts> {
    const reply = await this.tell(scripts.peek, entries)
    const [seconds, micros, values] = reply as [Buffer, Buffer, (Buffer | null)[]]
    // In whole numbers, as the scripts do it: milliseconds with a fraction would be a tick off.
    const now = toTicks(Number(seconds) * 1_000) + Math.floor(Number(micros) / 10)
    const found = values.map(value => new Value(value ?? NONE, 0, value?.length ?? 0))
    return factsFrom(entries, found, now)
  }

  async refund(taken: readonly Taken[], token: string): Promise<void> {
    const what = taken.flatMap(({ entry, receipt, ends }) => [kindOf(entry.spec).code, receipt, ends])
    const entries = taken.map(each => each.entry)
    await this.tell(scripts.refund, entries, [JSON.stringify(what), token])
  }

  async renew(entries: readonly Entry[], token: string): Promise<boolean> {
    const renewed = await this.tell(scripts.renew, entries, [token, ...entries.map(ttlOf)])
    return renewed === entries.length
  }

  async clear(entries: readonly Entry[]): Promise<void> {
    await this.tell(scripts.clear, entries)
  }

  async block(entries: readonly Entry[], ms: number): Promise<void> {
    await this.tell(scripts.block, entries, [ms, ...entries.map(ttlOf)])
  }

  async unblock(entries: readonly Entry[]): Promise<void> {
    await this.tell(scripts.unblock, entries, entries.map(ttlOf))
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
    await Promise.all(this.nodes().flatMap(node => loaded.map(({ text }) => node.script('LOAD', text))))
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

  private tell(script: Script, entries: readonly Entry[], args: readonly Argument[] = []): Promise<unknown> {
    return this.run(script, entries.length, [...this.keys(entries), ...args], reply => reply)
  }

  /** @param missed hears Redis's clock when the periods that it was told do not hold it */
  private decide(
    entries: readonly Entry[],
    token: string,
    missed: (now: number) => Promise<Facts>
  ): Promise<Facts> {
    const script = this.mixtures.scriptFor(entries)
    const wall = Date.now() + this.ahead
    const args = this.keys(entries)
    for (const { spec, value = 0 } of entries) {
      const told = kindOf(spec).tell(spec, wall, value, token)
      if (told !== undefined) args.push(told)
    }
    if (script === undefined) args.push(policyOf(entries))
    // A number is its clock: it could not decide.
    return this.run(script ?? anyMixture, entries.length, args, reply =>
      Buffer.isBuffer(reply) ? decided(entries, reply) : missed(Number(reply))
    )
  }

  private keys(entries: readonly Entry[]): Argument[] {
    return entries.map(({ identity, spec }) => `${this.head + identity}}:${spec.name}`)
  }

  /** @param args the names of so many keys, then what else the script is told */
  private run<T>(
    script: Script,
    keys: number,
    args: readonly Argument[],
    read: (reply: unknown) => T | Promise<T>
  ): Promise<T> {
    const send = () => {
      script.fresh = false
      return this.client.evalBuffer(script.text, keys, ...args).then(read)
    }
    if (script.fresh) return send()
    const { client, batch } = this
    const called = batch.send(client.stream, () => client.evalshaBuffer(script.sha, keys, ...args))
    return called.then(
      reply => {
        batch.answered()
        return read(reply)
      },
      error => {
        batch.answered()
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
        return send()
      }
    )
  }
}

function ttlOf({ spec }: Entry): number {
  return spec.ttl
}
