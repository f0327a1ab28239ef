interface Node<K, V> {
  key: K
  value: V
  before: Node<K, V>
  next: Node<K, V>
}

/**
 * A map ordered by when its keys were last set, whose oldest entry is found at once. A `Map` has to skip the places of
 * all deleted entries to find its first one, which takes 30 µs when it holds 100,000.
 */
export class OldestFirst<K, V> {
  private readonly nodes = new Map<K, Node<K, V>>()
  /** Closes the ring of nodes: it follows the newest and precedes the oldest. */
  private readonly end = {} as Node<K, V>

  constructor() {
    this.end.before = this.end
    this.end.next = this.end
  }

  get size(): number {
    return this.nodes.size
  }

  get oldest(): { readonly key: K; readonly value: V } | undefined {
    return this.size === 0 ? undefined : this.end.next
  }

  /** For immediate iteration: meanwhile, nothing may be set, and only the entry just yielded may be deleted. */
  *newestFirst(): Iterable<{ readonly key: K; readonly value: V }> {
    for (let node = this.end.before; node !== this.end; node = node.before) yield node
  }

  get(key: K): V | undefined {
    return this.nodes.get(key)?.value
  }

  /** Sets an entry and makes it the newest. */
  set(key: K, value: V): void {
    this.delete(key)
    const { end } = this
    const node = { key, value, before: end.before, next: end }
    end.before.next = node
    end.before = node
    this.nodes.set(key, node)
  }

  delete(key: K): void {
    const node = this.nodes.get(key)
    if (node === undefined) return
    node.before.next = node.next
    node.next.before = node.before
    this.nodes.delete(key)
  }
}
