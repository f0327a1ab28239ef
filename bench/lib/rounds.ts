/** What one measurement says, by the name of the column. */
export type Sample = Record<string, number>
/** Each subject with its samples, one a round. */
export type Samples = Map<string, Sample[]>

const ROUNDS = 5

export interface Size {
  quick: boolean
  rounds: number
  /** How much is measured: all by default, a part of it when it is to be quick. */
  scale(n: number, quick: number): number
}

export function sizeOf(quick: boolean): Size {
  return { quick, rounds: quick ? 1 : ROUNDS, scale: (n, small) => (quick ? small : n) }
}

/** Measures round by round. The first round of all is not kept: it compiles what is measured. */
export async function repeat<T>(size: Size, measure: (round: number) => Promise<T>): Promise<T[]> {
  const kept: T[] = []
  for (let round = size.quick ? 1 : 0; round <= size.rounds; round++) {
    const measured = await measure(round)
    if (round > 0) kept.push(measured)
  }
  return kept
}

/**
 * Measures all subjects in turn, round by round, so that what else happens on the machine meets all of them.
 * Each round begins with another one.
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
  // Of an even number it is between two.
  const median = (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2
  return { median: round(median), min: round(at(0)), max: round(at(last)) }
}

/** Three digits that say something. */
function round(value: number): number {
  return Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3))
}
