import { SecretMismatchError } from '../errors.js'
import type { RedisClient } from './client.js'
import { anyMixture } from './mixtures.js'
import { scripts } from './scripts.js'

const FINGERPRINT_SECONDS = 30 * 86_400

/** What there is to know of a Redis, or of the masters of a cluster, and to bring there, before it decides. */
export class RedisServer {
  constructor(
    private readonly client: RedisClient,
    private readonly prefix: string
  ) {}

  /** Whether the client sends a command again whose answer was lost with the connection: it may then count twice. */
  get resends(): boolean {
    const { isCluster, options = {} } = this.client
    const { autoResendUnfulfilledCommands } = options as { autoResendUnfulfilledCommands?: boolean }
    return isCluster !== true && autoResendUnfulfilledCommands !== false
  }

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

  /** Brings the scripts there, so that none is sent whole when a request waits. */
  async load(): Promise<void> {
    const texts = [anyMixture, ...Object.values(scripts)].map(({ text }) => text)
    await Promise.all(this.nodes().flatMap(node => texts.map(text => node.script('LOAD', text))))
  }

  /** What it may do to live keys when its memory is full; `noeviction`: nothing. */
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
}
