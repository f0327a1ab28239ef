import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { answered } from '../answered.js'
import { problem } from '../problem.js'
import {
  type Checked,
  type Delivery,
  type Ended,
  type Kept,
  RETENTION_MS,
  type Records,
  type Terms
} from './records.js'

type Argument = string | number
type Script = (key: string, ...args: Argument[]) => Promise<unknown>

const lua = (name: string) => ({
  numberOfKeys: 1,
  lua: readFileSync(new URL(`${name}.lua`, import.meta.url), 'utf8')
})
const scripts = {
  captchaPut: lua('put'),
  captchaGet: lua('get'),
  captchaCheck: lua('check'),
  captchaUncheck: lua('uncheck'),
  captchaRestore: lua('restore'),
  captchaCancel: lua('cancel'),
  captchaDelivery: lua('delivery')
}

/** Records that all instances on one Redis share, by its clock; one script a call, one key a script. */
export class RedisRecords implements Records {
  private readonly client: Redis & { [K in keyof typeof scripts]: Script }

  /**
   * @param client without a time limit of its own
   * @param timeoutMs how long an answer is waited for
   */
  constructor(
    client: Redis,
    private readonly timeoutMs = 1_000
  ) {
    for (const [name, script] of Object.entries(scripts)) client.defineCommand(name, script)
    this.client = client as typeof this.client
  }

  async put(key: string, sealed: string, { lifeMs, attempts }: Terms): Promise<void> {
    await this.run('captchaPut', key, sealed, lifeMs, attempts, RETENTION_MS)
  }

  async get(key: string): Promise<Kept | null> {
    return keptOf(await this.run('captchaGet', key))
  }

  async check(key: string, generation: number): Promise<Checked> {
    const token = randomUUID()
    const reply = await this.answered(
      this.ask('captchaCheck', key, generation, token),
      // Used up, and nobody was told that the code was right.
      () => this.run('captchaUncheck', key, token)
    )
    const [verified, attemptsLeft, tried] = reply as [number, number, number]
    return { verified: verified === 1, attemptsLeft, tried: tried === 1 }
  }

  async rotate(key: string, { lifeMs, attempts }: Terms, token: string): Promise<Kept | null> {
    const reply = await this.answered(
      this.ask('captchaPut', key, '', lifeMs, attempts, RETENTION_MS, token),
      // Made, and nobody will get it.
      () => this.restore(key, token)
    )
    return keptOf(reply)
  }

  async restore(key: string, token: string): Promise<void> {
    await this.run('captchaRestore', key, token)
  }

  async cancel(key: string): Promise<boolean> {
    return (await this.run('captchaCancel', key)) === 1
  }

  async noteDelivery(key: string, delivery: Delivery): Promise<void> {
    await this.run('captchaDelivery', key, delivery === 'unknown' ? '1' : '')
  }

  async drop(key: string): Promise<void> {
    await this.answered(this.client.del(nameOf(key)))
  }

  private run(script: keyof typeof scripts, key: string, ...args: Argument[]): Promise<unknown> {
    return this.answered(this.ask(script, key, ...args))
  }

  private ask(script: keyof typeof scripts, key: string, ...args: Argument[]): Promise<unknown> {
    return this.client[script](nameOf(key), ...args)
  }

  private answered<T>(command: Promise<T>, takeBack?: () => Promise<unknown>): Promise<T> {
    return answered(command, this.timeoutMs, unavailable, takeBack)
  }
}

const unavailable = () => problem(503, 'CODES_UNAVAILABLE', 'Codes can be neither kept nor checked now.')

const nameOf = (key: string) => `captcha:{${key}}`

function keptOf(reply: unknown): Kept | null {
  if (reply === null) return null
  const [now, sealed, generation, made, left, ends, ended, unknown] = reply as string[]
  return {
    sealed: sealed as string,
    generation: Number(generation),
    made: Number(made),
    attemptsLeft: Number(left),
    expiresAt: Number(ends),
    lifeMs: Number(ends) - Number(now),
    ended: ended as Ended,
    unknown: unknown === '1'
  }
}
