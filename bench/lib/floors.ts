import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { type Limiter, limiter } from './limiters.js'
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

/** What tables call `floor`. */
export const FLOOR = 'EVALSHA of return 1'

/** The least that a script over five keys can cost. */
export async function floor(client: Redis): Promise<Limiter> {
  await client.script('LOAD', NOTHING)
  const script = sha(NOTHING)
  return limiter(
    send => {
      const asked = keys(send, 5)
      return () => client.evalsha(script, 5, ...asked)
    },
    answer => answer === 1
  )
}

/** One script for each window, each a plain counter that expires. */
export async function counters(client: Redis, count: number): Promise<Limiter> {
  await client.script('LOAD', COUNTER)
  const script = sha(COUNTER)
  return limiter(
    send => {
      const asked = keys(send, count)
      return () => Promise.all(asked.map(key => client.evalsha(script, 1, key, 60)))
    },
    all => all.every(n => n === 1)
  )
}
