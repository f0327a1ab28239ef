/** A sender and its weight among the senders of its step. */
interface Share {
  name: string
  weight: number
}

/** @param text as in `aliyun:3|tencent:1,twilio`: steps in order, each with the senders that share it */
export function readChoice(text: string): Share[][] {
  return text.split(',').map(step =>
    step.split('|').map(each => {
      const [name = '', weight = '1'] = each.split(':')
      return { name, weight: Number(weight) }
    })
  )
}

/**
 * Takes turns by weight: in as many calls as the sum of weights, each share is first as often as its weight says,
 * evenly spread (smooth weighted round robin, as in nginx).
 * @returns a function that returns all shares, with the one whose turn it is in front
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
