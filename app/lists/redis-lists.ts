import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { answered } from '../answered.js'
import { problem } from '../problem.js'
import {
  type Found,
  full,
  hasherOf,
  type Lists,
  MAX_ENTRIES,
  type Page,
  type Placed,
  type Placing
} from './lists.js'

type Script<T> = (...args: (string | number)[]) => Promise<T>
interface Scripts {
  listsPut: Script<number>
  listsGet: Script<[string, number]>
  listsRemove: Script<number>
  listsPage: Script<string[]>
}

const lua = (name: string) => readFileSync(new URL(`${name}.lua`, import.meta.url), 'utf8')
const scripts = { listsPut: 'put', listsGet: 'get', listsRemove: 'remove', listsPage: 'page' }

/** One hash tag: a cluster keeps them on one node. */
const [ENTRIES, ENDS, BLOCKED, ALLOWED, PLACINGS] = ['entries', 'ends', 'blocked', 'allowed', 'placings'].map(
  name => `list:{recipients}:${name}`
) as [string, string, string, string, string]
const LISTS = [ENTRIES, ENDS, BLOCKED, ALLOWED]

/** Lists that all instances on one Redis share. Each method is one trip. */
export class RedisLists implements Lists {
  private readonly client: Redis & Scripts
  private readonly hash: (identity: string) => string

  /** @param client without a time limit of its own */
  constructor(
    client: Redis,
    secret: string,
    private readonly max = MAX_ENTRIES,
    /** How long an answer is waited for, in milliseconds: less than a filter of the plugin is given. */
    private readonly timeoutMs = 500
  ) {
    this.hash = hasherOf(secret)
    for (const [command, name] of Object.entries(scripts)) {
      client.defineCommand(command, { lua: `${lua('sweep')}\n${lua(name)}` })
    }
    this.client = client as typeof this.client
  }

  async put(identity: string, { standing, masked, reason, durationMs }: Placing): Promise<Placed> {
    const id = this.hash(identity)
    const more = { masked, ...(reason !== undefined && { reason }) }
    const args = [id, standing, durationMs ?? 0, this.max, JSON.stringify(more)]
    const since = await this.answered(this.client.listsPut(5, ...LISTS, PLACINGS, ...args))
    if (since === -1) throw full(this.max)
    return { standing, ...more, since, ...(durationMs !== undefined && { until: since + durationMs }) }
  }

  async get(identity: string): Promise<Found | null> {
    const [kept, now] = await this.answered(this.client.listsGet(4, ...LISTS, this.hash(identity)))
    if (kept === '') return null
    const placed = placedOf(kept)
    return { ...placed, ...(placed.until !== undefined && { leftMs: placed.until - now }) }
  }

  async remove(identity: string): Promise<boolean> {
    return (await this.answered(this.client.listsRemove(4, ...LISTS, this.hash(identity)))) === 1
  }

  async all({ standing, limit, after }: Page): Promise<{ entries: Placed[]; next: string | null }> {
    const from = after === undefined ? '+inf' : `(${after}`
    const [next, ...kept] = await this.answered(
      this.client.listsPage(4, ...LISTS, limit, from, standing ?? 'both')
    )
    return { entries: kept.map(placedOf), next: next || null }
  }

  private answered<T>(command: Promise<T>): Promise<T> {
    return answered(command, this.timeoutMs, unavailable)
  }
}

const unavailable = () => problem(503, 'LISTS_UNAVAILABLE', 'Who is blocked or allowed is not known now.')

function placedOf(kept: string): Placed {
  const [, since, until, standing, more] = /^(\d+) (\d+) (\w+) (.*)$/s.exec(kept) as RegExpExecArray
  return {
    standing: standing as Placed['standing'],
    ...(JSON.parse(more as string) as Pick<Placed, 'masked' | 'reason'>),
    since: Number(since),
    ...(until !== '0' && { until: Number(until) })
  }
}
