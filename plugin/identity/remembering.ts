/** Longer texts are not remembered: a body may hold megabytes. */
const LONGEST = 256
/** So many texts are remembered. */
const MOST = 2_000
/** Then so many more have to come again until one takes the place of the oldest: to remember costs more than to reckon anew. */
const TURNS = 16
/** For the sums of texts that came once. */
const SUMS = 2 ** 14

/**
 * The same function, which remembers its last answer, and those to some two thousand texts that came more than once;
 * `undefined` is no answer. What comes again and again, in a flood or in several rules of one request, is reckoned once
 * or twice. The texts stay in the memory of this process; of those that came once, a number does.
 */
export function remembering<T>(of: (text: string) => T): (text: string) => T {
  // Made for the first text: of an app's rules few are asked, and each would take 64 kB.
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
  private readonly seen = new Int32Array(SUMS)
  private turn = 0

  constructor(private readonly of: (text: string) => T) {}

  find(text: string): T {
    const { answers, of } = this
    const known = answers.get(text)
    if (known !== undefined) return known
    if (!this.cameBefore(text)) return of(text)
    const full = answers.size === MOST
    if (full && ++this.turn % TURNS !== 0) return of(text)
    const own = copyOf(text)
    const answer = of(own)
    if (answer === undefined) return answer
    if (full) answers.delete(answers.keys().next().value as string)
    answers.set(own, answer)
    return answer
  }

  /** Whether it is the last one of its place that came. */
  private cameBefore(text: string): boolean {
    const sum = sumOf(text)
    const place = sum & (SUMS - 1)
    const before = this.seen[place] === sum
    this.seen[place] = sum
    return before
  }
}

/** A text of its own: V8 would keep the whole of what it was cut from, as of the body of a form. */
const copyOf = (text: string): string => JSON.parse(JSON.stringify(text))

/** The same for a function of two, which remembers for each second argument apart. */
export function rememberingEach<K, T>(of: (text: string, by: K) => T): (text: string, by: K) => T {
  const each = new Map<K, (text: string) => T>()
  return (text, by) => {
    let known = each.get(by)
    if (known === undefined) {
      known = remembering(asked => of(asked, by))
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
