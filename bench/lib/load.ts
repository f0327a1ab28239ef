import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { performance } from 'node:perf_hooks'
import { answer, asked } from './child.js'
import { sendOf } from './policy.js'

/** Which sends are asked for: new ones, a hundred that were all refused before, or one of each in turn. */
export type Scenario = 'admit-all' | 'deny-flood' | 'mixed'

export interface Load {
  port: number
  scenario: Scenario
  connections: number
  ms: number
  /** Ends after so many, if that is sooner. */
  count?: number
  /** Number of the first new send. */
  from: number
  /** Number of the first of those that are asked for again and again. */
  flood: number
  /** Never sleeps: to wake this process costs the server more than a limiter does. Only where Redis is not on this core. */
  awake: boolean
}

export interface Loaded {
  requests: number
  seconds: number
  /** How many were answered below 400. */
  admitted: number
  /** In milliseconds. */
  p50: number
  p99: number
  /** Number of the next new send. */
  next: number
}

/** How many are asked for again and again. */
export const FLOODED = 100
const HEAD_END = Buffer.from('\r\n\r\n')

function requestOf(i: number): string {
  const { phone, to, ip, account, template, params } = sendOf(i)
  const body = JSON.stringify({ phone, to, template, params })
  return `POST /send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nx-forwarded-for: ${ip}\r\nx-account: ${account}\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}

/** A connection that asks again when it has its answer: whole replies, read no further than to their length. */
class Connection {
  private rest: Buffer = Buffer.alloc(0)
  private began = 0

  constructor(
    private readonly socket: Socket,
    private readonly request: () => string | undefined,
    private readonly onReply: (status: number, ms: number) => void
  ) {
    socket.setNoDelay(true)
    socket.on('data', chunk => this.read(chunk))
  }

  ask(): void {
    const request = this.request()
    if (request === undefined) return void this.socket.destroy()
    this.began = performance.now()
    this.socket.write(request)
  }

  private read(chunk: Buffer): void {
    const all = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk])
    const head = all.indexOf(HEAD_END)
    const length = head < 0 ? undefined : /content-length: (\d+)/i.exec(all.toString('latin1', 0, head))?.[1]
    if (head >= 0 && length === undefined) throw new Error('a reply without content-length')
    if (head < 0 || all.length < head + 4 + Number(length)) {
      this.rest = all
      return
    }
    this.rest = Buffer.alloc(0)
    this.onReply(Number(all.toString('latin1', 9, 12)), performance.now() - this.began)
    this.ask()
  }
}

async function run({
  port,
  scenario,
  connections,
  ms,
  count = Infinity,
  from,
  flood,
  awake
}: Load): Promise<Loaded> {
  let next = from
  let turn = 0
  const again = () => requestOf(flood + (turn % FLOODED))
  const fresh = () => requestOf(next++)
  const make = () => {
    turn++
    if (scenario === 'admit-all') return fresh()
    return scenario === 'mixed' && turn % 2 === 0 ? fresh() : again()
  }
  const latencies: number[] = []
  let admitted = 0
  const sockets = Array.from({ length: connections }, () => connect(port, '127.0.0.1'))
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  const start = performance.now()
  const until = start + ms
  const one = (socket: Socket) =>
    new Promise<void>((resolve, reject) => {
      const connection = new Connection(
        socket,
        () => (turn < count && performance.now() < until ? make() : undefined),
        (status, taken) => {
          if (status >= 500 || status === 400 || status === 404) reject(new Error(`answered ${status}`))
          if (status < 400) admitted++
          latencies.push(taken)
        }
      )
      socket.once('error', reject)
      socket.once('close', () => resolve())
      connection.ask()
    })
  let over = !awake
  const stayAwake = () => void (over || setImmediate(stayAwake))
  stayAwake()
  await Promise.all(sockets.map(one))
  over = true
  const seconds = (performance.now() - start) / 1000
  latencies.sort((a, b) => a - b)
  const at = (part: number) => latencies[Math.floor(part * (latencies.length - 1))] ?? Number.NaN
  return { requests: latencies.length, seconds, admitted, p50: at(0.5), p99: at(0.99), next }
}

if (asked()) answer(run)
