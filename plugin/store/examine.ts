import type { Awaitable } from '../awaitable.js'
import { SecretMismatchError } from '../errors.js'
import { within } from '../within.js'
import { withoutCommand } from './redis-errors.js'
import type { RedisServer } from './server.js'

interface Log {
  warn(what: object | string, message?: string): void
  error(what: object, message: string): void
}

/**
 * Looks at Redis at start and at each new connection: whether the other processes on it have the same secret, and
 * whether it keeps live keys. While Redis does not answer, `onStoreError` says what holds, and it is looked at as soon
 * as it answers.
 */
export class Examination {
  private beginning: Promise<void> | undefined
  private begun = false
  /** Repeats the look under way when it has failed; undefined while none is under way. */
  private repeating: NodeJS.Timeout | undefined
  /** Whether another look was asked for during one, which may have missed what is new. */
  private missed = false
  private closed = false
  /** The error that a look after the start has found: other processes use another secret. */
  private mismatch: Error | null = null
  private stopListening = () => {}
  /** Warnings of what failed at the last look: while a node of a cluster is lost, there are many looks a second. */
  private readonly failing = new Set<string>()

  /**
   * @param fingerprint a hash of the secret
   * @param timeout how long until Redis is asked again, in milliseconds
   * @param patience how long the start waits, in milliseconds
   */
  constructor(
    private readonly redis: RedisServer,
    private readonly fingerprint: string,
    private readonly timeout: number,
    private readonly log: Log,
    private readonly patience = timeout
  ) {}

  /**
   * Begins with the first call; later calls wait for the same start.
   * @throws SecretMismatchError when Redis answers in time, and others use another secret
   */
  begin(): Awaitable<void> {
    if (this.begun) return
    this.beginning ??= this.start()
    return this.beginning
  }

  /** @throws SecretMismatchError when a look after the start has found one, and no later look has succeeded */
  verify(): void {
    if (this.mismatch !== null) throw this.mismatch
  }

  /** Looks again: Redis may have begun empty, or another server may have taken its place. */
  again(): void {
    if (this.closed) return
    this.missed = this.repeating !== undefined
    if (!this.missed) void this.follow(this.look())
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
      await within(looked, this.patience, () => new Error('no answer in time'))
    } catch (error) {
      if (error instanceof SecretMismatchError) throw error
      this.warn(error, 'the secret of redis is not known yet')
      void this.follow(looked, connection)
    }
    if (!this.closed) this.stopListening = this.redis.onConnection(() => this.again())
    this.begun = true
  }

  private stop(): void {
    clearInterval(this.repeating)
    this.repeating = undefined
  }

  /**
   * Waits for a look to end, and looks again when it failed or its answer was lost.
   * @param asked the connection when the look began
   */
  private async follow(looked: Promise<void>, asked = this.redis.connection): Promise<void> {
    let failed = false
    const repeat = () => {
      const { connection } = this.redis
      // A call that a lost connection has left unanswered may never settle (retry.ts).
      const lost = connection !== undefined && connection !== asked
      if (failed || lost) void this.follow(this.look())
    }
    this.stop()
    if (!this.closed) this.repeating = setInterval(repeat, this.timeout).unref()
    try {
      await looked
      this.mismatch = null
    } catch (error) {
      failed = true
      if (this.closed || !(error instanceof SecretMismatchError)) return
      this.mismatch = error
      // The server listens by now: only its operator can help.
      this.log.error({ err: error }, 'limits are not shared')
    }
    this.stop()
    if (this.missed) this.again()
  }

  /**
   * Looks, and looks again once a client has connected that had no offline queue for the first try: else the first
   * requests would find Redis lost.
   */
  private async firstLook(): Promise<void> {
    try {
      await this.look()
    } catch (error) {
      if (!(await this.redis.connected())) throw error
      await this.look()
    }
  }

  private async look(): Promise<void> {
    // If this cannot be found out, there is no warning.
    const wrong = await this.redis.wrongServer().catch(() => undefined)
    if (wrong !== undefined) this.log.warn(wrong)
    try {
      // This comes before any question to the nodes: a client that is still connecting to a cluster knows none.
      await this.redis.verify(this.fingerprint)
    } catch (error) {
      // The client is the wrong one, so another try would fail as well.
      if (wrong !== undefined && !(error instanceof SecretMismatchError)) return
      throw error
    }
    await this.attempt(this.redis.load(), 'redis could not load the scripts')
    const policy = await this.attempt(
      this.redis.evictionPolicy(),
      'the eviction policy of redis is not known'
    )
    if (policy !== undefined && policy !== 'noeviction')
      this.log.warn(`redis may evict live limits (maxmemory-policy ${policy}); set noeviction`)
  }

  /**
   * @param warning logged when it fails, once until it works again
   * @returns undefined when it fails
   */
  private async attempt<T>(asked: Promise<T>, warning: string): Promise<T | undefined> {
    try {
      const answer = await asked
      this.failing.delete(warning)
      return answer
    } catch (error) {
      if (!this.failing.has(warning)) this.warn(error, warning)
      this.failing.add(warning)
      return undefined
    }
  }

  private warn(error: unknown, message: string): void {
    this.log.warn({ err: withoutCommand(error) }, message)
  }
}
