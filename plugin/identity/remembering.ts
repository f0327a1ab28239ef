/** Longer texts are not remembered: a body may hold megabytes. */
const LONGEST = 256
/** A text may be in two of them, an even one and the next; the later one of two is in the first. */
const PLACES = 2 ** 11
/** For the sums of texts that came once. */
const SUMS = 2 ** 14

/**
 * The same function, which remembers its last answer, and those to some two thousand texts that came more than once;
 * `undefined` is no answer. What comes again and again, in a flood or in several rules of one request, is reckoned once
 * or twice. The texts stay in the memory of this process; of those that came once, a number does.
 */
export function remembering<T>(of: (text: string) => T): (text: string) => T {
  // Made for the first text: of an app's rules few are asked, and each would take 100 kB.
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
  private readonly texts: string[] = Array(PLACES).fill('')
  private readonly answers: (T | undefined)[] = Array(PLACES).fill(undefined)
  private readonly seen = new Int32Array(SUMS)

  constructor(private readonly of: (text: string) => T) {}

  find(text: string): T {
    const { texts, answers, seen, of } = this
    const sum = sumOf(text)
    const place = sum & (PLACES - 2)
    const other = place + 1
    if (texts[place] === text && answers[place] !== undefined) return answers[place]
    if (texts[other] === text && answers[other] !== undefined) return answers[other]
    const once = sum & (SUMS - 1)
    const again = seen[once] === sum
    seen[once] = sum
    if (!again) return of(text)
    const own = copyOf(text)
    const answer = of(own)
    texts[other] = texts[place] as string
    answers[other] = answers[place]
    texts[place] = own
    answers[place] = answer
    return answer
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

function sumOf(text: string): number {
  let sum = 0
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0
  return sum
}
