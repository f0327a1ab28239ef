import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { problem } from '../problem.js'
import { type Argument, type Scripts, scriptsOf } from '../scripts.js'
import { withTimeout } from '../with-timeout.js'
import {
  type Checked,
  type Ended,
  type Kept,
  RETENTION_MS,
  type Records,
  type Sent,
  type Terms
} from './records.js'

const SCRIPTS = ['put', 'get', 'check', 'uncheck', 'restore', 'reuse', 'cancel', 'sent', 'drop'] as const
type Name = (typeof SCRIPTS)[number]

/** Records in Redis, shared by all instances and timed by the clock of Redis. Each call is one script on one key. */
export class RedisRecords implements Records {
  private readonly scripts: Scripts<Name>

  /**
   * @param client must have no command timeout of its own
   * @param timeoutMs how long to wait for an answer of Redis
   */
  constructor(
    client: Redis,
    private readonly timeoutMs = 1_000
  ) {
    this.scripts = scriptsOf(client, 'captcha', SCRIPTS)
  }

  async put(key: string, sealed: string, { lifeMs, tries }: Terms): Promise<void> {
    await this.run('put', key, sealed, lifeMs, tries, RETENTION_MS)
  }

  async get(key: string): Promise<Kept | null> {
    return keptOf(await this.run('get', key))
  }

  async check(key: string, generation: number): Promise<Checked> {
    const token = randomUUID()
    const reply = await this.answered(
      this.ask('check', key, generation, token),
      // The try may have used the code up, and nobody was told that it was right.
      () => this.ask('uncheck', key, token)
    )
    const [verified, triesLeft, tried, receipts] = reply as [number, number, number, string]
    return {
      verified: verified === 1,
      triesLeft,
      tried: tried === 1,
      receipts: receipts.match(/[^ ]+/g) ?? []
    }
  }

  async rotate(key: string, { lifeMs, tries }: Terms, token: string): Promise<number | null> {
    const generation = await this.answered(
      this.ask('put', key, '', lifeMs, tries, RETENTION_MS, token),
      // The next code may have been made, and nobody will get it.
      () => this.ask('restore', key, token)
    )
    return generation as number | null
  }

  async restore(key: string, token: string): Promise<void> {
    // Otherwise the one valid code would be a code that nobody has.
    await this.repeated('restore', key, token)
  }

  async reuse(key: string): Promise<Kept | null> {
    return keptOf(await this.run('reuse', key))
  }

  async cancel(key: string): Promise<boolean> {
    return (await this.run('cancel', key)) === 1
  }

  async noteSent(key: string, generation: number, { sender, perhaps, receipt }: Sent): Promise<boolean> {
    return (await this.run('sent', key, generation, sender, receipt, perhaps)) === 1
  }

  async drop(key: string): Promise<void> {
    await this.repeated('drop', key)
  }

  private run(script: Name, key: string, ...args: Argument[]): Promise<unknown> {
    return this.answered(this.ask(script, key, ...args))
  }

  /** Runs a script that may run twice. When it fails it is repeated, though nobody waits for that. */
  private repeated(script: Name, key: string, ...args: Argument[]): Promise<unknown> {
    const ask = () => this.ask(script, key, ...args)
    return this.answered(ask(), ask)
  }

  private ask(script: Name, key: string, ...args: Argument[]): Promise<unknown> {
    return this.scripts[script]([nameOf(key)], ...args)
  }

  private answered<T>(command: Promise<T>, takeBack?: () => Promise<unknown>): Promise<T> {
    return withTimeout(command, this.timeoutMs, unavailable, takeBack)
  }
}

const unavailable = () => problem(503, 'CODES_UNAVAILABLE', 'Codes can be neither stored nor checked now.')

const nameOf = (key: string) => `captcha:{${key}}`

function keptOf(reply: unknown): Kept | null {
  if (reply === null) return null
  const [now, sealed, generation, made, left, ends, ended, sender, perhaps] = reply as string[]
  return {
    sealed: sealed as string,
    generation: Number(generation),
    made: Number(made),
    triesLeft: Number(left),
    lifeMs: Number(ends) - Number(now),
    ended: ended as Ended,
    sender: sender as string,
    // Most records have none.
    perhaps: perhaps ?? ''
  }
}
