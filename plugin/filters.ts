import type { Filter } from './filter.js'

/** All filters in use. Each is initialized and closed once, however many routes name it. */
export class Filters {
  private readonly all = new Set<Filter>()
  private readonly begun: Filter[] = []

  add(filter: Filter): void {
    this.all.add(filter)
  }

  async init(): Promise<void> {
    for (const filter of this.all) {
      await filter.init?.()
      this.begun.push(filter)
    }
  }

  /** Closes the filters in reverse order. If one fails, the others are closed all the same. @throws the first error */
  async close(): Promise<void> {
    const errors: unknown[] = []
    for (const filter of this.begun.splice(0).reverse()) {
      try {
        await filter.close?.()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }
}
