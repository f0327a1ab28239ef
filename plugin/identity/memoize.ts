/** Longer texts are not remembered: a body may hold megabytes. */
const LONGEST = 256
/** How many texts are remembered. */
const MOST = 2_000
/**
 * After that, only every 16th text that comes again takes the place of the oldest, since remembering costs more than
 * computing anew.
 */
const TURNS = 16
/** How many places there are for the sums of texts. */
const SUMS = 2 ** 14

/**
 * The same function, which remembers its last answer, and its answers to some 2,000 texts that came more than once. An
 * answer `undefined` is not remembered. A text that comes again and again, in a flood or in several rules of one
 * request, is seldom computed anew. Remembered texts stay in the memory of this process; of a text that came once, a
 * number does, and the text until the next one comes.
 */
export function memoize<T>(of: (text: string) => T): (text: string) => T {
  // Made for the first text: only few of an app's rules are asked, and each would take 96 kB.
  let remembered: Remembered<T> | undefined
  let last = ''
  let lastAnswer: T | undefined

  return text => {
    if (text.length > LONGEST) return of(text)
    if (text === last && lastAnswer !== undefined) return lastAnswer
    remembered ??= new Remembered(of)
    const answer = remembered.find(text)
    last = text
    lastAnswer = answer
    return answer
  }
}

class Remembered<T> {
  private readonly answers = new Map<string, T>()
  /** How many of the texts in `answers` have their sum in each place. */
  private readonly kept = new Uint16Array(SUMS)
  private readonly seen = new Int32Array(SUMS)
  private turn = 0
  private missed = false

  constructor(private readonly of: (text: string) => T) {}

  /**
   * Texts that are remembered tend to come in a row, and so do new ones. V8 takes up to 0.3 µs to look for a new text in
   * a `Map`, so after a miss the place of its sum is asked first.
   */
  find(text: string): T {
    if (this.missed) {
      const sum = sumOf(text)
      if (this.kept[placeOf(sum)] === 0) return this.compute(text, sum)
    }
    const known = this.answers.get(text)
    this.missed = known === undefined
    return known === undefined ? this.compute(text, sumOf(text)) : known
  }

  private compute(text: string, sum: number): T {
    if (!this.cameBefore(sum)) return this.of(text)
    const full = this.answers.size === MOST
    if (full && ++this.turn % TURNS !== 0) return this.of(text)
    const own = copyOf(text)
    const answer = this.of(own)
    if (answer === undefined) return answer
    if (full) this.forget(this.answers.keys().next().value as string)
    this.answers.set(own, answer)
    this.count(sum, 1)
    return answer
  }

  private forget(text: string): void {
    this.answers.delete(text)
    this.count(sumOf(text), -1)
  }

  private count(sum: number, by: 1 | -1): void {
    const place = placeOf(sum)
    this.kept[place] = (this.kept[place] as number) + by
  }

  /** Whether the sum is the last one that came of those with its place. */
  private cameBefore(sum: number): boolean {
    const place = placeOf(sum)
    const before = this.seen[place] === sum
    this.seen[place] = sum
    return before
  }
}

const placeOf = (sum: number): number => sum & (SUMS - 1)

/** A copy of the text: V8 would otherwise keep the whole string that it was cut from, such as the body of a form. */
const copyOf = (text: string): string => JSON.parse(JSON.stringify(text))

/** The same for a function of two arguments, which remembers for each second argument apart. */
export function memoizeEach<K, T>(of: (text: string, by: K) => T): (text: string, by: K) => T {
  const each = new Map<K, (text: string) => T>()
  return (text, by) => {
    let known = each.get(by)
    if (known === undefined) {
      known = memoize(asked => of(asked, by))
      each.set(by, known)
    }
    return known(text)
  }
}

/** FNV-1a, of UTF-16. */
function sumOf(text: string): number {
  let sum = 0x811c9dc5 | 0
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 16_777_619)
  return sum
}
