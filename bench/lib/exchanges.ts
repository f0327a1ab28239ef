import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { performance } from 'node:perf_hooks'

/** A request, and the check of its answer. */
export interface Exchange {
  request: string
  /** @throws when the answer is not as expected */
  answered(status: number, body: Buffer): void
}

export interface Exchanged {
  requests: number
  seconds: number
  /** In milliseconds. */
  p50: number
  p99: number
}

const HEAD_END = Buffer.from('\r\n\r\n')

/** A connection that sends the next request when it has the whole answer, of which only the length is parsed. */
class Connection {
  private rest: Buffer = Buffer.alloc(0)
  private began = 0
  private exchange: Exchange | undefined

  constructor(
    private readonly socket: Socket,
    private readonly next: () => Exchange | undefined,
    private readonly latencies: number[]
  ) {
    socket.setNoDelay(true)
    socket.on('data', chunk => this.read(chunk))
  }

  ask(): void {
    this.exchange = this.next()
    if (this.exchange === undefined) return void this.socket.destroy()
    this.began = performance.now()
    this.socket.write(this.exchange.request)
  }

  private read(chunk: Buffer): void {
    const all = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk])
    const head = all.indexOf(HEAD_END)
    const length = head < 0 ? undefined : /content-length: (\d+)/i.exec(all.toString('latin1', 0, head))?.[1]
    if (head >= 0 && length === undefined)
      return void this.socket.destroy(new Error('a reply without content-length'))
    if (head < 0 || all.length < head + 4 + Number(length)) {
      this.rest = all
      return
    }
    this.rest = Buffer.alloc(0)
    this.latencies.push(performance.now() - this.began)
    try {
      this.exchange?.answered(Number(all.toString('latin1', 9, 12)), all.subarray(head + 4))
      this.ask()
    } catch (error) {
      this.socket.destroy(error as Error)
    }
  }
}

/**
 * Sends requests over several connections at once, on each the next one when the answer is there, until there are no
 * more.
 * @param awake keeps this process from sleeping: waking it costs the server more than a limiter does
 */
export async function exchangeAll(
  { port, connections, awake }: { port: number; connections: number; awake: boolean },
  next: () => Exchange | undefined
): Promise<Exchanged> {
  const latencies: number[] = []
  const sockets = Array.from({ length: connections }, () => connect(port, '127.0.0.1'))
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  const start = performance.now()
  const one = (socket: Socket) =>
    new Promise<void>((resolve, reject) => {
      socket.once('error', reject)
      socket.once('close', () => resolve())
      new Connection(socket, next, latencies).ask()
    })
  let over = !awake
  const stayAwake = () => void (over || setImmediate(stayAwake))
  stayAwake()
  await Promise.all(sockets.map(one))
  over = true
  const seconds = (performance.now() - start) / 1000
  latencies.sort((a, b) => a - b)
  const at = (part: number) => latencies[Math.floor(part * (latencies.length - 1))] ?? Number.NaN
  return { requests: latencies.length, seconds, p50: at(0.5), p99: at(0.99) }
}
