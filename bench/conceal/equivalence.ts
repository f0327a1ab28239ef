/** How the means of two samples of times compare. */
interface Equivalence {
  /** Mean of the first less mean of the second. */
  difference: number
  /** 90 % confidence interval of the difference. */
  interval: [low: number, high: number]
  /** Whether the means differ by less than the margin, at the 5 % level. */
  equivalent: boolean
}

/**
 * Two one-sided tests at 5 % each (D. J. Schuirmann, A comparison of the two one-sided tests procedure and the power
 * approach for assessing the equivalence of average bioavailability, 1987), by Welch's t for unequal variances: both
 * reject when the 90 % confidence interval of the difference lies within ± margin.
 */
export function equivalenceOf(a: readonly number[], b: readonly number[], margin: number): Equivalence {
  const [first, second] = [summaryOf(a), summaryOf(b)]
  const difference = first.mean - second.mean
  const variance = first.error + second.error
  // Welch–Satterthwaite.
  const freedom = variance ** 2 / (first.error ** 2 / (a.length - 1) + second.error ** 2 / (b.length - 1))
  const half = quantile(freedom) * Math.sqrt(variance)
  const [low, high] = [difference - half, difference + half]
  return { difference, interval: [low, high], equivalent: low > -margin && high < margin }
}

/** Mean, and the square of its standard error. */
function summaryOf(values: readonly number[]): { mean: number; error: number } {
  const n = values.length
  const mean = values.reduce((sum, each) => sum + each, 0) / n
  const variance = values.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (n - 1)
  return { mean, error: variance / n }
}

/**
 * 95 % quantile of Student's t (Abramowitz and Stegun, 26.7.5): right to three digits from 10 degrees of freedom on.
 */
export function quantile(freedom: number): number {
  // The 95 % quantile of the normal distribution.
  const z = 1.6448536269514722
  const terms = [
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384
  ]
  return terms.reduce((sum, term, i) => sum + term / freedom ** (i + 1), z)
}
