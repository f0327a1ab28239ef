import type { Awaitable } from '../awaitable.js'
import { SecretMismatchError } from '../errors.js'
import { within } from '../within.js'
import { withoutCommand } from './client.js'
import type { RedisServer } from './server.js'

interface Log {
  warn(what: object | string, message?: string): void
  error(what: object, message: string): void
}

/**
 * Looks at a Redis at start, and whenever it is connected to anew: whether its other processes have this one's secret, and
 * whether it keeps live keys. While it does not answer, limits hold as `onStoreError` says; it is looked at as soon as it does.
 */
export class Examination {
  private beginning: Promise<void> | undefined
  private begun = false
  private checking: NodeJS.Timeout | undefined
  /** Whether it was asked for while it looked, and may have looked past what is new. */
  private missed = false
  private closed = false
  /** What an answer after the start has told: others use another secret. */
  private mismatch: Error | null = null
  private stopListening = () => {}

  /**
   * @param fingerprint a hash of the secret
   * @param timeout how long the start waits, and how long until Redis is asked again, in milliseconds
   */
  constructor(
    private readonly redis: RedisServer,
    private readonly fingerprint: string,
    private readonly timeout: number,
    private readonly log: Log
  ) {}

  /**
   * Begins once, for whoever asks first; others wait for the same.
   * @throws SecretMismatchError when Redis answers in time, and others use another secret
   */
  begin(): Awaitable<void> {
    if (this.begun) return
    this.beginning ??= this.start()
    return this.beginning
  }

  /** @throws SecretMismatchError when it was found after the start, and not otherwise since */
  verify(): void {
    if (this.mismatch !== null) throw this.mismatch
  }

  /** Looks again: it may have begun empty, or another one may have its place. */
  again(): void {
    if (this.closed) return
    this.missed = this.checking !== undefined
    if (!this.missed) this.follow(this.look(), this.redis.connection)
  }

  end(): void {
    this.closed = true
    this.stopListening()
    this.stop()
  }

  private async start(): Promise<void> {
    for (const warning of this.redis.warnings) this.log.warn(warning)
    const { connection } = this.redis
    const looked = this.firstLook()
    try {
      await within(looked, this.timeout, () => new Error('no answer in time'))
    } catch (error) {
      if (error instanceof SecretMismatchError) throw error
      this.warn(error, 'the secret of redis is not known yet')
      this.follow(looked, connection)
    }
    if (!this.closed) this.stopListening = this.redis.onConnection(() => this.again())
    this.begun = true
  }

  private endLook(): void {
    this.stop()
    if (this.missed) this.again()
  }

  private stop(): void {
    clearInterval(this.checking)
    this.checking = undefined
  }

  /**
   * Waits for the answer, and asks again where it failed or was lost.
   * @param asked the connection when it began to look
   */
  private follow(looked: Promise<void>, asked: unknown): void {
    let failed = false
    const check = () => {
      const { connection } = this.redis
      // What a lost connection has left unanswered may never settle (retry.ts).
      const lost = connection !== undefined && connection !== asked
      if (!failed && !lost) return
      this.follow(this.look(), connection)
    }
    this.stop()
    if (!this.closed) this.checking = setInterval(check, this.timeout).unref()
    looked.then(
      () => {
        this.mismatch = null
        this.endLook()
      },
      error => {
        failed = true
        if (this.closed || !(error instanceof SecretMismatchError)) return
        this.mismatch = error
        // The server listens by now: only its operator can help.
        this.log.error({ err: error }, 'limits are not shared')
        this.endLook()
      }
    )
  }

  /** A client that queues nothing fails while it is connecting: the first requests should not find Redis lost for that. */
  private async firstLook(): Promise<void> {
    try {
      await this.look()
    } catch (error) {
      if (!(await this.redis.connected())) throw error
      await this.look()
    }
  }

  private async look(): Promise<void> {
    // What cannot be asked is not known.
    const mistaken = await this.redis.mistaken().catch(() => undefined)
    if (mistaken !== undefined) this.log.warn(mistaken)
    try {
      // Before the nodes are asked, since a client still connecting to a cluster knows none.
      await this.redis.verify(this.fingerprint)
    } catch (error) {
      // Another try would find the same.
      if (mistaken !== undefined && !(error instanceof SecretMismatchError)) return
      throw error
    }
    await this.redis.load().catch(error => this.warn(error, 'redis could not load the scripts'))
    const policy = await this.redis.evictionPolicy().catch(error => {
      this.warn(error, 'the eviction policy of redis is not known')
      return 'noeviction'
    })
    if (policy !== 'noeviction')
      this.log.warn(`redis may evict live limits (maxmemory-policy ${policy}); set noeviction`)
  }

  private warn(error: unknown, message: string): void {
    this.log.warn({ err: withoutCommand(error) }, message)
  }
}
