/** A sender and its share among its equals. */
interface Share {
  name: string
  weight: number
}

/** @param text as in `aliyun:3|tencent:1,twilio`: steps in their order, each with its equals */
export function readChoice(text: string): Share[][] {
  return text.split(',').map(step =>
    step.split('|').map(each => {
      const [name = '', weight = '1'] = each.split(':')
      return { name, weight: Number(weight) }
    })
  )
}

/**
 * Takes turns by weight: of every `sum of weights` calls each share is first as often as its weight says, evenly spread
 * (smooth weighted round robin, as in nginx).
 * @returns a function that gives all of them, who is first next time in front
 */
export function turns<S extends { weight: number }>(shares: readonly S[]): () => S[] {
  const total = shares.reduce((sum, { weight }) => sum + weight, 0)
  const standings = shares.map(share => ({ share, credit: 0 }))
  return () => {
    for (const each of standings) each.credit += each.share.weight
    const order = standings.toSorted((a, b) => b.credit - a.credit)
    const [first] = order
    if (first !== undefined) first.credit -= total
    return order.map(({ share }) => share)
  }
}
