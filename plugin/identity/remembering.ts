/** Longer texts are not remembered: a body may hold megabytes. */
const LONGEST = 256
/** Each text may be in two of them, an even one and the next; the later one of two is in the first. */
const PLACES = 2 ** 11

/**
 * The same function, which remembers its answers to some two thousand of the last texts; `undefined` is no answer.
 * What comes again and again, in a flood or in several rules of one request, is reckoned once. The texts stay in the
 * memory of this process.
 */
export function remembering<T>(of: (text: string) => T): (text: string) => T {
  const texts: string[] = Array(PLACES).fill('')
  const answers: (T | undefined)[] = Array(PLACES).fill(undefined)
  return text => {
    if (text.length > LONGEST) return of(text)
    const place = placeOf(text)
    const other = place + 1
    if (texts[place] === text && answers[place] !== undefined) return answers[place]
    if (texts[other] === text && answers[other] !== undefined) return answers[other]
    const answer = of(text)
    texts[other] = texts[place] as string
    answers[other] = answers[place]
    texts[place] = text
    answers[place] = answer
    return answer
  }
}

/** An even place. */
function placeOf(text: string): number {
  let sum = 0
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0
  return sum & (PLACES - 2)
}
