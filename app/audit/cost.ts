import { type Static, Type } from 'typebox'
import { strict } from '../schemas/common.js'
import type { Channel } from '../senders/sender.js'

// Beyond some bound, the cost of several segments would be Infinity, which JSON writes as null.
const Price = Type.Number({
  minimum: 0,
  maximum: 1_000_000,
  description: 'a price in the currency, at most 1,000,000'
})

/** What messages cost: an SMS per segment, by the first digits of its number; a mail as a whole. */
export const PricesSchema = Type.Object(
  {
    currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'an ISO 4217 code such as "USD"' }),
    sms: Type.Optional(
      Type.Record(Type.String({ pattern: '^(default|[1-9][0-9]{0,6})$' }), Price, {
        additionalProperties: false,
        description: 'prices by the first digits of a number, such as "86", or "default"',
        names: 'the first digits of a number without a plus, such as "86", or "default"'
      })
    ),
    mail: Type.Optional(Price)
  },
  strict
)
export type Prices = Static<typeof PricesSchema>

interface Cost {
  amount: number
  currency: string
}

/** What a message costs, as rules count it. */
export interface Price {
  /** Ten-thousandths of the currency, since rules count whole numbers. */
  units: number
  currency: string
}

const UNITS = 10_000

/** A cost as rules count it; null for none. */
export function priceOf(cost: Cost | undefined): Price | null {
  // In floating point, 0.0079 would be a little more than 79 units, and a rule rounds up.
  return cost && cost.amount > 0
    ? { units: Number((cost.amount * UNITS).toFixed(3)), currency: cost.currency }
    : null
}

/** So many units as an amount of the currency. */
export function amountOf(units: number): number {
  return units / UNITS
}

/**
 * Estimates what a message costs. For an SMS, the longest listed prefix of the number decides.
 * @param to phone number in E.164, or mail address
 * @returns undefined when no price is given
 */
export function costOf(
  channel: Channel,
  to: string,
  segments: number,
  prices: Prices | undefined
): Cost | undefined {
  if (prices === undefined) return undefined
  const price = channel === 'mail' ? prices.mail : smsPrice(to, prices.sms ?? {})
  if (price === undefined) return undefined
  // A ten-millionth is finer than any price list; further digits are floating-point noise.
  return { amount: Number((price * segments).toFixed(7)), currency: prices.currency }
}

function smsPrice(to: string, sms: Readonly<Record<string, number>>): number | undefined {
  const digits = to.replace(/^\+/, '')
  for (let length = 7; length > 0; length--) {
    const prefix = digits.slice(0, length)
    if (Object.hasOwn(sms, prefix)) return sms[prefix]
  }
  return sms.default
}
