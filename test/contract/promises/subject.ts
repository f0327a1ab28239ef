import type { Test } from 'tap'
import type { Entry, Store, Taken } from '../../../plugin/store/store.js'
import { type NamedFacts, named, takenOf, token } from '../specs.js'
import type { Time } from '../time.js'

/** Something that every store promises, and the test of it. */
export type Promised = [promise: string, see: (s: Subject) => Promise<void>]

export interface Opened {
  store: Store
  time: Time
}

/** A store, with the methods that the tests of the promises use. */
export class Subject {
  readonly store: Store
  readonly time: Time

  constructor(
    readonly t: Test,
    { store, time }: Opened
  ) {
    this.store = store
    this.time = time
  }

  async reserve(entries: Entry[], holder = token()): Promise<NamedFacts> {
    return named(entries, await this.store.reserve(entries, holder))
  }

  async peek(entries: Entry[]): Promise<NamedFacts> {
    return named(entries, await this.store.peek(entries))
  }

  /** Reserves, and asserts that it is admitted. @returns what a refund takes */
  async take(entries: Entry[], holder = token()): Promise<Taken[]> {
    const facts = await this.reserve(entries, holder)
    this.t.equal(facts.admitted, true, 'admitted')
    return takenOf(entries, facts)
  }

  /** How many slots are used, by entry and limit. */
  async used(entries: Entry[]): Promise<number[][]> {
    return (await this.peek(entries)).entries.map(({ limits }) => limits.map(({ used }) => used))
  }

  async admits(entries: Entry[], expected: boolean, message: string): Promise<void> {
    this.t.equal((await this.peek(entries)).admitted, expected, message)
  }

  async refund(taken: Taken[], holder = ''): Promise<void> {
    await this.store.refund(taken, holder)
  }
}

export const states = (facts: NamedFacts) => facts.entries.map(({ state }) => state)
export const counted = (facts: NamedFacts) => facts.entries.map(({ receipt }) => receipt !== 0)
export const hour = 3_600_000
export const day = 24 * hour
