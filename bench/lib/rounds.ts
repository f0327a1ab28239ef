/** The figures of one measurement, by the name of the column. */
export type Sample = Record<string, number>
/** The samples of each subject, one for each round. */
export type Samples = Map<string, Sample[]>

const ROUNDS = 5

export interface Size {
  quick: boolean
  rounds: number
  /** How much is measured: `n`, or `quick` in a quick run. */
  scale(n: number, quick: number): number
}

export function sizeOf(quick: boolean): Size {
  return { quick, rounds: quick ? 1 : ROUNDS, scale: (n, small) => (quick ? small : n) }
}

/**
 * Measures round by round. Unless in a quick run, a first round is dropped, in which Node compiles what is measured.
 */
export async function repeat<T>(size: Size, measure: (round: number) => Promise<T>): Promise<T[]> {
  const kept: T[] = []
  for (let round = size.quick ? 1 : 0; round <= size.rounds; round++) {
    const measured = await measure(round)
    if (round > 0) kept.push(measured)
  }
  return kept
}

/**
 * Measures all subjects in turn, round by round, so that other load on the machine affects all of them. Each round
 * begins with another subject.
 */
export async function interleave(
  subjects: readonly string[],
  size: Size,
  measure: (subject: string) => Promise<Sample>
): Promise<Samples> {
  const samples: Samples = new Map(subjects.map(subject => [subject, []]))
  const rounds = await repeat(size, async round => {
    const measured: [subject: string, sample: Sample][] = []
    for (let i = 0; i < subjects.length; i++) {
      const subject = subjects[(i + round) % subjects.length] as string
      measured.push([subject, await measure(subject)])
    }
    return measured
  })
  for (const [subject, sample] of rounds.flat()) samples.get(subject)?.push(sample)
  return samples
}

export interface Summary {
  median: number
  min: number
  max: number
}

export function summarize(values: readonly number[]): Summary {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (i: number) => sorted[i] ?? Number.NaN
  const [middle, last] = [(sorted.length - 1) / 2, sorted.length - 1]
  // The median of an even number of values is between two of them.
  const median = (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2
  return { median: round(median), min: round(at(0)), max: round(at(last)) }
}

/** Rounds to three significant digits, or to a whole number from 1,000 on. */
function round(value: number): number {
  return Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3))
}
