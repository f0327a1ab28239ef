import { factsOf } from '../limits/index.js'
import { Journal } from './journal.js'
import type { MemoryStore } from './memory.js'
import type { Awaitable, Entry, Facts, Settling, Store, Taken } from './store.js'

/** In place of the time at which something was counted. */
const CLEARED = 0

/** The memory that decides while another store does not. What that one admits here is noted, and counted when it is needed. */
export class StandIn {
  private readonly journal = new Journal()

  constructor(private readonly memory: MemoryStore) {}

  /** The memory, in which all that is noted is counted. */
  get store(): MemoryStore {
    this.journal.catchUp((entry, at) => {
      if (at !== CLEARED) return this.memory.count(entry, at)
      this.memory.clear([entry])
      return 0
    })
    return this.memory
  }

  /** Notes what the other store has admitted, locks excepted. @returns how it is settled in both */
  note(entries: readonly Entry[], facts: Facts, store: Settling): Settling {
    const at = this.memory.ticks
    let head = 2
    const notes = entries.map(entry => {
      const counted = facts[head + 1] !== 0 && entry.spec.kind !== 'lock'
      head += factsOf(entry.spec)
      return counted ? this.journal.note(entry, at) : undefined
    })
    return new Noted(store, entries, notes, this)
  }

  /** That store's own: what it has cleared, blocked or unblocked is so in the memory, too. */
  following(store: Store): Pick<Store, 'clear' | 'block' | 'unblock'> {
    return {
      clear: async entries => {
        await store.clear(entries)
        for (const entry of entries) this.journal.note(entry, CLEARED)
      },
      block: async (entries, ms) => {
        await store.block(entries, ms)
        this.memory.block(entries, ms)
      },
      unblock: async entries => {
        await store.unblock(entries)
        this.memory.unblock(entries)
      }
    }
  }

  /** Gives back in the memory what is noted. */
  giveBack(noted: readonly { taken: Taken; note: number }[]): void {
    for (const { taken, note } of noted) {
      const receipt = this.journal.strike(note)
      if (receipt !== 0) this.memory.refund([{ ...taken, receipt }], '')
    }
  }
}

/** Gives back in a store and in the memory that stands in for it. */
class Noted implements Settling {
  readonly name: string

  constructor(
    private readonly store: Settling,
    private readonly entries: readonly Entry[],
    private readonly notes: readonly (number | undefined)[],
    private readonly standIn: StandIn
  ) {
    this.name = store.name
  }

  refund(taken: readonly Taken[], token: string): Awaitable<void> {
    const noted = taken.flatMap(each => {
      const note = this.notes[this.entries.indexOf(each.entry)]
      return note === undefined ? [] : [{ taken: each, note }]
    })
    if (noted.length > 0) this.standIn.giveBack(noted)
    return this.store.refund(taken, token)
  }

  renew(entries: readonly Entry[], token: string): Awaitable<boolean> {
    return this.store.renew(entries, token)
  }
}
