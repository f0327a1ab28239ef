/** Longer texts are not remembered: a body may hold megabytes. */
const LONGEST = 256
/** How many texts are remembered. */
const MOST = 2_000
/**
 * After that, only every 16th text that comes again takes the place of the oldest, since remembering costs more than
 * computing anew.
 */
const TURNS = 16
/** How many places there are for the sums of texts that came. */
const SUMS = 2 ** 14

/**
 * The same function, which remembers its last answer, and its answers to some 2,000 texts that came more than once. An
 * answer `undefined` is not remembered. A text that comes again and again, in a flood or in several rules of one
 * request, is seldom computed anew. Remembered texts stay in the memory of this process; of a text that came once, a
 * number does, and the text until the next one comes.
 */
export function memoize<T>(of: (text: string) => T): (text: string) => T {
  // Made for the first text: only few of an app's rules are asked, and each would take 64 kB.
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

  /** Whether the text is the last one that came of those with its place. */
  private cameBefore(text: string): boolean {
    const sum = sumOf(text)
    const place = sum & (SUMS - 1)
    const before = this.seen[place] === sum
    this.seen[place] = sum
    return before
  }
}

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
