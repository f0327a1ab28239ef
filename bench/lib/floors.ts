import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { Limiter } from './limiters.js'
import type { Send } from './policy.js'

const NOTHING = 'return 1'
const COUNTER = `local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return n`

function sha(script: string): string {
  return createHash('sha1').update(script).digest('hex')
}

function keys({ phone }: Send, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `floor:{${phone}${phone}}:${i}`)
}

/** The least that a script over five keys can cost. */
export async function floor(client: Redis): Promise<Limiter> {
  await client.script('LOAD', NOTHING)
  return {
    decide: async send => (await client.evalsha(sha(NOTHING), 5, ...keys(send, 5))) === 1,
    close() {}
  }
}

/** One script a window, each a plain counter that expires. */
export async function counters(client: Redis, count: number): Promise<Limiter> {
  await client.script('LOAD', COUNTER)
  return {
    async decide(send) {
      const all = await Promise.all(keys(send, count).map(key => client.evalsha(sha(COUNTER), 1, key, 60)))
      return all.every(n => n === 1)
    },
    close() {}
  }
}
