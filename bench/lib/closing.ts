/** What a bench has opened; closed in reverse order when it ends. */
export class Closing {
  readonly #all: (() => unknown)[] = []

  teardown(close: () => unknown): void {
    this.#all.push(close)
  }

  async close(): Promise<void> {
    for (const close of this.#all.splice(0).reverse()) await close()
  }
}

/** Runs a bench and closes what it opened, however it ends. */
export async function closing(bench: (closing: Closing) => Promise<void>): Promise<void> {
  const all = new Closing()
  try {
    await bench(all)
  } finally {
    await all.close()
  }
}
