import type { Cell } from '../limits/kind.js'
import type { Arena } from './arena.js'
import { REACH } from './page.js'
import { type Spec, specInForce, TICKS_PER_MS } from './store.js'

/** Whether a cell of this spec holds nothing but stamps, none of which is needed once it is 127 days old. */
function ofStamps(spec: Spec): boolean {
  return spec.kind === 'log' && specInForce(spec).ttl * TICKS_PER_MS < REACH
}

/** A record of the arena as a cell; one object serves every record in turn. */
export class ArenaCell implements Cell {
  #identity = ''
  #spec: Spec | undefined
  #record = 0

  constructor(private readonly arena: Arena) {}

  /** Points the cell at the record of an identity, if there is one. */
  open(identity: string, spec: Spec): this {
    this.#identity = identity
    this.#spec = spec
    this.#record = this.arena.find(identity, spec.series)
    return this
  }

  /** Forgets the texts that the cell was opened for. */
  forget(): void {
    this.#identity = ''
    this.arena.forget()
  }

  get length(): number {
    return this.arena.length(this.#record)
  }

  at(index: number): number {
    return this.arena.field(this.#record, index)
  }

  set(index: number, value: number): void {
    this.arena.set(this.#record, index, value)
  }

  move(to: number, from: number, count: number): void {
    this.arena.move(this.#record, to, from, count)
  }

  resize(length: number): boolean {
    if (length === 0) {
      if (this.#record !== 0) this.arena.remove(this.#record)
      this.#record = 0
      return true
    }
    const spec = this.#spec as Spec
    const record = this.arena.resize(this.#identity, spec.series, this.#record, length, ofStamps(spec))
    if (record !== 0) this.#record = record
    return record !== 0
  }

  expire(at: number): void {
    this.arena.touch(this.#record, at)
  }
}
