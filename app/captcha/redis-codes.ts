import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { problem } from '../problem.js'
import type { Checked, Codes, Ticket } from './codes.js'

type Script = (key: string, ...args: string[]) => Promise<number>

const lua = (name: string) => readFileSync(new URL(`${name}.lua`, import.meta.url), 'utf8')
const scripts = {
  captchaCheck: { numberOfKeys: 1, lua: lua('check') },
  captchaCancel: { numberOfKeys: 1, lua: lua('cancel') }
}

const keyOf = (slot: string) => `captcha:{${slot}}`

/** Codes that all instances on one Redis share. */
export class RedisCodes implements Codes {
  private readonly client: Redis & { [K in keyof typeof scripts]: Script }

  constructor(client: Redis) {
    for (const [name, script] of Object.entries(scripts)) client.defineCommand(name, script)
    this.client = client as typeof this.client
  }

  async keep({ slot, nonce, digest }: Ticket, lifetimeMs: number, tries: number): Promise<void> {
    await answered(this.client.set(keyOf(slot), `${tries}${nonce}${digest}`, 'PX', lifetimeMs))
  }

  async check({ slot, nonce, digest }: Ticket): Promise<Checked> {
    const left = await answered(this.client.captchaCheck(keyOf(slot), nonce, digest))
    return left === -1 ? { verified: true } : { verified: false, attemptsLeft: left }
  }

  async cancel({ slot, nonce }: Pick<Ticket, 'slot' | 'nonce'>): Promise<void> {
    await answered(this.client.captchaCancel(keyOf(slot), nonce))
  }
}

async function answered<T>(command: Promise<T>): Promise<T> {
  try {
    return await command
  } catch (cause) {
    throw Object.assign(problem(503, 'CODES_UNAVAILABLE', 'Codes can be neither kept nor checked now.'), {
      cause
    })
  }
}
