/** Longer texts are not remembered: a body may hold megabytes. */
const LONGEST = 256
/** Each text has one place; another that falls on it takes it over. */
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
    const known = answers[place]
    if (known !== undefined && texts[place] === text) return known
    const answer = of(text)
    texts[place] = text
    answers[place] = answer
    return answer
  }
}

function placeOf(text: string): number {
  let sum = 0
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0
  return sum & (PLACES - 1)
}
