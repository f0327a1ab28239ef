import { setImmediate } from 'node:timers'
import { CLEARED, CLEARING, Journal } from './journal.js'
import type { MemoryStore } from './memory.js'
import type { Entry, Facts, Settling, Store, Taken } from './store.js'
import { takenOf } from './taken.js'
import { Hearing } from './watched.js'

const COUNTING_MS = 1_000
/** For how long it counts at a time, in milliseconds. */
const COUNTING_BUDGET_MS = 2

type Following = Pick<Store, 'clear' | 'block' | 'unblock'>

/**
 * The memory that decides while another store does not. The sends which that one admits here are noted, and counted
 * little by little; all the rest when the memory has to decide. Locks, attempts and what is only observed are not.
 */
export class StandIn {
  /** Grows whenever somebody is blocked here. */
  blockings = 0
  private readonly journal = new Journal()
  private readonly counting: NodeJS.Timeout
  private catchingUp: Promise<void> | undefined

  constructor(private readonly memory: MemoryStore) {
    this.counting = setInterval(() => this.countFor(COUNTING_BUDGET_MS), COUNTING_MS).unref()
  }

  /** The clock of what it counts, in ticks. */
  get now(): number {
    return this.memory.ticks
  }

  /** Counts what is noted, in as many turns of the event loop as it takes; what is noted meanwhile is left. */
  catchUp(): Promise<void> {
    this.catchingUp ??= this.countInTurns().finally(() => {
      this.catchingUp = undefined
    })
    return this.catchingUp
  }

  /** The memory, with all that is noted counted: in one go what was not before. */
  caughtUp(): MemoryStore {
    this.countFor(Number.POSITIVE_INFINITY)
    return this.memory
  }

  /**
   * Notes what the other store has admitted.
   * @param blockings as they were when it was asked
   * @returns how it is settled in both
   */
  note(entries: readonly Entry[], facts: Facts, store: Settling, blockings: number): Settling {
    const at = this.memory.ticks
    const { next } = this.journal
    const current = blockings === this.blockings
    for (const { entry, ends } of takenOf(entries, facts)) {
      // Admitted there, so another process has unblocked whoever is blocked here; unless this answer is older than the block.
      if (current) this.memory.unblock([entry])
      if (isSend(entry)) this.journal.note(entry, ends, at)
    }
    const count = this.journal.next - next
    return count > 0 ? new Hearing(store, given => this.giveBack(given, next, count)) : store
  }

  /** Clears, blocks and unblocks in that store, then in the memory. */
  following(store: Following): Following {
    return {
      clear: async entries => {
        // What is asked of that store later counts behind this clear, though its answer may be heard first: notes mark the place.
        const { next } = this.journal
        const asked = this.memory.ticks
        for (const entry of entries) this.journal.note(entry, 0, CLEARING)
        await store.clear(entries)
        for (const [i, entry] of entries.entries()) {
          // The memory is cleared now, unless something that came behind the note is counted there already.
          const first = this.journal.clear(next + i) || this.memory.latest(entry) <= asked
          if (first) this.memory.clear([entry])
        }
      },
      block: async (entries, ms) => {
        await store.block(entries, ms)
        this.memory.block(entries, ms)
        this.blockings++
      },
      unblock: async entries => {
        await store.unblock(entries)
        this.memory.unblock(entries)
      }
    }
  }

  /** Gives back what was held while the other store was asked. */
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
    if (at !== CLEARED && at !== CLEARING) return this.memory.count(entry, this.memory.ticks - at, ends)
    if (at === CLEARED) this.memory.clear([entry])
    return 0
  }
}

export function isSend({ spec }: Entry): boolean {
  return spec.kind !== 'lock' && !spec.forgettable && !spec.observed
}
