import { performance } from 'node:perf_hooks'
import { answer, asked } from './child.js'
import { type Exchanged, exchangeAll } from './exchanges.js'
import { sendOf } from './policy.js'

/** The sends that are requested: new ones, a hundred that were all refused before, or one of each in turn. */
export type Scenario = 'admit-all' | 'deny-flood' | 'mixed'

export interface Load {
  port: number
  scenario: Scenario
  connections: number
  ms: number
  /** The most requests; with it, the load may end before `ms`. */
  count?: number
  /** Number of the first new send. */
  from: number
  /** Number of the first of the sends that are requested again and again. */
  flood: number
  /** Whether to keep this process from sleeping: only if Redis is not on this core. */
  awake: boolean
}

export interface Loaded extends Exchanged {
  /** How many were answered below 400. */
  admitted: number
  /** Number of the next new send. */
  next: number
}

/** How many sends are requested again and again. */
export const FLOODED = 100

function requestOf(i: number): string {
  const { phone, to, ip, account, template, params } = sendOf(i)
  const body = JSON.stringify({ phone, to, template, params })
  return `POST /send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nx-forwarded-for: ${ip}\r\nx-account: ${account}\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}

async function run({ scenario, ms, count = Infinity, from, flood, ...how }: Load): Promise<Loaded> {
  let next = from
  let turn = 0
  let admitted = 0
  const again = () => requestOf(flood + (turn % FLOODED))
  const fresh = () => requestOf(next++)
  const make = () => {
    turn++
    if (scenario === 'admit-all') return fresh()
    return scenario === 'mixed' && turn % 2 === 0 ? fresh() : again()
  }
  const answered = (status: number) => {
    if (status >= 500 || status === 400 || status === 404) throw new Error(`answered ${status}`)
    if (status < 400) admitted++
  }
  let until: number | undefined
  const exchanged = await exchangeAll(how, () => {
    // The time starts when all are connected.
    until ??= performance.now() + ms
    return turn < count && performance.now() < until ? { request: make(), answered } : undefined
  })
  return { ...exchanged, admitted, next }
}

if (asked()) answer(run)
