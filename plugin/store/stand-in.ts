import { setImmediate } from 'node:timers'
import { isHeld } from '../limits/index.js'
import type { Facts } from './facts.js'
import { CLEARED, CLEARING, Journal } from './journal.js'
import type { MemoryStore } from './memory.js'
import type { Entry, Settling, Store, Taken } from './store.js'
import { takenOf } from './taken.js'
import { WatchedSettling } from './watched.js'

/** How often a round of counting begins, in milliseconds. */
const COUNTING_MS = 1_000
/** How long a round takes at most, in milliseconds. */
const COUNTING_BUDGET_MS = 2

type Following = Pick<Store, 'clear' | 'block' | 'unblock'>

/**
 * The memory that decides while the primary store is lost. The sends that the primary store admits in this process are
 * noted in a journal and counted in the memory little by little; when the memory has to decide, all the rest is counted
 * first. Locks, attempts and what is only observed are not noted.
 */
export class StandIn {
  private readonly journal = new Journal()
  private readonly counting: NodeJS.Timeout
  private catchingUp: Promise<void> | undefined
  /** When this process last blocked somebody, in milliseconds by the monotonic clock. */
  private blockedAt = 0

  constructor(private readonly memory: MemoryStore) {
    this.counting = setInterval(() => this.countFor(COUNTING_BUDGET_MS), COUNTING_MS).unref()
  }

  /** The present tick of the clock by which the memory counts. */
  get now(): number {
    return this.memory.ticks
  }

  /** Counts all notes made so far, in as many turns of the event loop as it takes. Notes made meanwhile are left. */
  catchUp(): Promise<void> {
    this.catchingUp ??= this.countInTurns().finally(() => {
      this.catchingUp = undefined
    })
    return this.catchingUp
  }

  /** The memory, with every note counted. Notes that were not counted yet are counted now, in one go. */
  caughtUp(): MemoryStore {
    this.countFor(Number.POSITIVE_INFINITY)
    return this.memory
  }

  /**
   * Notes what the primary store has admitted.
   * @param asked when the primary store was asked, in milliseconds by the monotonic clock
   * @returns how to settle it in the primary store and in the memory
   */
  note(entries: readonly Entry[], facts: Facts, store: Settling, asked: number): Settling {
    const at = this.memory.ticks
    const { next } = this.journal
    const current = asked >= this.blockedAt
    for (const { entry, ends } of takenOf(entries, facts)) {
      // The primary store admits this identity. So if it is blocked here, another process has unblocked it, unless this
      // answer is older than the block.
      if (current) this.memory.unblock([entry])
      if (isSend(entry)) this.journal.note(entry, ends, at)
    }
    const count = this.journal.next - next
    return count > 0 ? new WatchedSettling(store, given => this.giveBack(given, next, count)) : store
  }

  /** Clears, blocks and unblocks in the primary store, then in the memory. */
  following(store: Following): Following {
    return {
      clear: async entries => {
        // What the primary store is asked after this clear stays counted there, though its answer may come first. So
        // notes mark the place of the clear in the journal.
        const { next } = this.journal
        for (const entry of entries) this.journal.note(entry, 0, CLEARING)
        await store.clear(entries)
        for (const [i, entry] of entries.entries()) {
          // Clears the memory now, unless it has counted a send since it came to the note.
          const before = this.journal.clear(next + i) ?? Number.POSITIVE_INFINITY
          if (this.memory.latest(entry) <= before) this.memory.clear([entry])
        }
      },
      block: async (entries, ms) => {
        await store.block(entries, ms)
        this.memory.block(entries, ms)
        this.blockedAt = performance.now()
      },
      unblock: async entries => {
        await store.unblock(entries)
        this.memory.unblock(entries)
      }
    }
  }

  /** Gives back slots that were held while the primary store was asked. */
  release(taken: readonly Taken[], token: string): void {
    this.memory.giveBack(taken, token)
  }

  close(): void {
    clearInterval(this.counting)
    this.memory.close()
  }

  private giveBack(taken: readonly Taken[], first: number, count: number): void {
    for (const each of taken) {
      const receipt = this.journal.strike(each.entry.spec, first, count)
      if (receipt !== 0) this.memory.giveBack([{ ...each, receipt }], '')
    }
  }

  private async countInTurns(): Promise<void> {
    const { next } = this.journal
    for (;;) {
      this.countFor(COUNTING_BUDGET_MS)
      if (this.journal.isCounted(next)) return
      await new Promise(resolve => setImmediate(resolve))
    }
  }

  private countFor(ms: number): void {
    const end = performance.now() + ms
    while (this.journal.countNext(this.count) && performance.now() < end);
  }

  private readonly count = (entry: Entry, at: number, ends: number): number => {
    if (at === CLEARING) return this.memory.latest(entry)
    if (at !== CLEARED) return this.memory.count(entry, this.memory.ticks - at, ends)
    this.memory.clear([entry])
    return 0
  }
}

export function isSend({ spec }: Entry): boolean {
  return !isHeld(spec) && !spec.forgettable && !spec.observed
}
