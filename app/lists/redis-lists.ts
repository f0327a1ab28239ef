import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { ConfigError } from '../check.js'
import { problem } from '../problem.js'
import { type Scripts, scriptsOf } from '../scripts.js'
import { withTimeout } from '../with-timeout.js'
import {
  type CurrentEntry,
  full,
  type ListEntry,
  type Lists,
  MAX_ENTRIES,
  type NewEntry,
  type Page,
  type PageEntry
} from './lists.js'

/** The names share a hash tag, so that a cluster keeps all of them on one node. */
const LISTS = ['entries', 'ends', 'blocked', 'allowed', 'secret'].map(name => `list:{recipients}:${name}`)
const PLACINGS = 'list:{recipients}:placings'
/** How long to wait, after a connection was cut, before Redis is asked again, in milliseconds. */
const RETRY_MS = 20

/** Whether the error is an answer of Redis itself. */
const isReply = (error: unknown) => error instanceof Error && error.name === 'ReplyError'

/** Lists in Redis, shared by all instances. Each method takes one round trip. */
export class RedisLists implements Lists {
  private readonly scripts: Scripts<'put' | 'get' | 'remove' | 'page'>
  /** Whether the last look-up failed. */
  private lost = false

  /** @param client must have no command timeout of its own */
  constructor(
    client: Redis,
    /** The fingerprint of the secret under which recipients are hashed. */
    private readonly fingerprint: string,
    /** How long to wait for an answer, in milliseconds: less than the plugin gives a filter. */
    private readonly timeoutMs = 500,
    private readonly max = MAX_ENTRIES
  ) {
    this.scripts = scriptsOf(client, 'lists', ['put', 'get', 'remove', 'page'])
  }

  async put(recipientHash: string, { standing, masked, reason, durationMs }: NewEntry): Promise<ListEntry> {
    const more = { ...(masked !== undefined && { masked }), ...(reason !== undefined && { reason }) }
    const args = [this.fingerprint, recipientHash, standing, durationMs ?? 0, this.max, JSON.stringify(more)]
    const since = (await this.inTime(this.scripts.put([...LISTS, PLACINGS], ...args))) as number
    if (since === -1) throw full(this.max)
    return { standing, ...more, since, ...(durationMs !== undefined && { until: since + durationMs }) }
  }

  async get(recipientHash: string): Promise<CurrentEntry | null> {
    const [kept, now] = (await this.lookUp(recipientHash)) as [string, number]
    if (kept === '') return null
    const entry = entryOf(kept)
    return { ...entry, ...(entry.until !== undefined && { leftMs: entry.until - now }) }
  }

  async remove(recipientHash: string): Promise<void> {
    await this.inTime(this.scripts.remove(LISTS, this.fingerprint, recipientHash))
  }

  async all({ standing, limit, after }: Page): Promise<{ entries: PageEntry[]; next: string | null }> {
    const from = after === undefined ? '+inf' : `(${after}`
    const args = [this.fingerprint, limit, from, standing ?? 'both']
    const answer = await this.inTime(this.scripts.page(LISTS, ...args))
    const [next, ...found] = answer as [string, ...[string, string][]]
    const entries = found.map(([recipientHash, kept]) => ({ recipientHash, ...entryOf(kept) }))
    return { entries, next: next || null }
  }

  async verify(): Promise<void> {
    await this.get('').catch(({ cause }: { cause?: unknown }) => {
      if (cause instanceof ConfigError) throw cause
    })
  }

  private async lookUp(recipientHash: string): Promise<unknown> {
    try {
      const answer = await this.inTime(this.getWithRetries(recipientHash))
      this.lost = false
      return answer
    } catch (error) {
      this.lost = true
      throw error
    }
  }

  /**
   * Asks again when the connection was cut, since it may be back at once, and until then nobody knows who is blocked.
   * While Redis is known to be lost, it asks only once.
   */
  private async getWithRetries(recipientHash: string): Promise<unknown> {
    const end = performance.now() + this.timeoutMs
    for (;;) {
      try {
        return await this.scripts.get(LISTS, this.fingerprint, recipientHash)
      } catch (error) {
        if (this.lost || isReply(error) || performance.now() >= end) throw error
        await sleep(RETRY_MS)
      }
    }
  }

  private inTime<T>(command: Promise<T>): Promise<T> {
    return withTimeout(command.catch(explained), this.timeoutMs, unavailable)
  }
}

const OTHER_SECRET =
  'RECIPIENT_SECRET, or LIMIT_SECRET where that is not set, is not the secret of the block and allow lists on this Redis. Give all processes one. To change it, stop all of them and delete the keys list:{recipients}:*; blocks and allowances are lost. See docs/runbook.md.'

function explained(error: Error): never {
  throw error.message.includes('OTHERSECRET') ? new ConfigError(OTHER_SECRET) : error
}

const unavailable = () => problem(503, 'LISTS_UNAVAILABLE', 'It is not known now who is blocked or allowed.')

function entryOf(kept: string): ListEntry {
  const [, since, until, standing, more] = /^(\d+) (\d+) (\w+) (.*)$/s.exec(kept) as RegExpExecArray
  return {
    standing: standing as ListEntry['standing'],
    ...(JSON.parse(more as string) as Pick<ListEntry, 'masked' | 'reason'>),
    since: Number(since),
    ...(until !== '0' && { until: Number(until) })
  }
}
