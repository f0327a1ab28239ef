import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import { slotOf } from '../../plugin/store/nodes.js'
import { placeOf, type RedisCluster } from './cluster.js'

/** What is asked of every node, since what is asked next may go to any. */
const EVERYWHERE = /^script$/i
const CROSS_SLOT = "CROSSSLOT Keys in request don't hash to the same slot"

/**
 * A proxy in front of a cluster, which passes for a single Redis, as those of Redis Enterprise, Tair and Tencent Cloud do:
 * it sends each command to the node of its keys, and refuses one whose keys are in several slots.
 */
export async function startProxy(t: Test, { nodes }: RedisCluster): Promise<string> {
  const clientAt = (slot: number) => nodes[placeOf(slot, nodes.length)]?.client
  const ask = async ([command, ...args]: Buffer[]) => {
    const name = String(command)
    const slots = new Set(keysOf(name, args).map(key => slotOf(String(key))))
    if (slots.size > 1) throw new Error(CROSS_SLOT)
    const [slot = 0] = slots
    const asked = EVERYWHERE.test(name) ? nodes.map(({ client }) => client) : [clientAt(slot)]
    const [answer] = await Promise.all(asked.map(client => client?.callBuffer(name, ...args)))
    // It hides what is behind it.
    return /^info$/i.test(name) ? Buffer.from(String(answer).replaceAll('cluster', 'standalone')) : answer
  }
  const proxy = createServer(socket => {
    socket.on('error', () => {})
    t.teardown(() => socket.destroy())
    serve(socket, ask)
  }).listen(0, '127.0.0.1')
  t.teardown(() => proxy.close())
  await once(proxy, 'listening')
  return `redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`
}

/** The keys of a command: those of a script, or the first argument of any other that has one. */
function keysOf(name: string, args: readonly Buffer[]): readonly Buffer[] {
  if (/^eval(sha)?$/i.test(name)) return args.slice(2, 2 + Number(args[1]))
  return /^(get|set|del|ttl|exists)$/i.test(name) ? args.slice(0, 1) : []
}

/** Answers one command after another. */
function serve(socket: Socket, ask: (command: Buffer[]) => Promise<unknown>): void {
  let text = Buffer.alloc(0)
  let turn = Promise.resolve()
  socket.on('data', chunk => {
    text = Buffer.concat([text, chunk])
    for (let found = commandIn(text); found; found = commandIn(text)) {
      const { command, length } = found
      text = text.subarray(length)
      const answer = ask(command).then(encode, (error: Error) => Buffer.from(`-${error.message}\r\n`))
      turn = turn.then(async () => {
        socket.write(await answer)
      })
    }
  })
}

/** The first command, if all of it is there: a list of byte strings (RESP). */
function commandIn(text: Buffer): { command: Buffer[]; length: number } | undefined {
  let at = 0
  const number = () => {
    const end = text.indexOf('\r\n', at)
    const found = Number(text.subarray(at + 1, end < 0 ? at + 1 : end))
    at = end < 0 ? Number.POSITIVE_INFINITY : end + 2
    return found
  }
  const command: Buffer[] = []
  for (let left = number(); left > 0 && at < text.length; left--) {
    const length = number()
    command.push(text.subarray(at, at + length))
    at += length + 2
  }
  return at <= text.length && command.length > 0 ? { command, length: at } : undefined
}

function encode(answer: unknown): Buffer {
  if (Array.isArray(answer))
    return Buffer.concat([Buffer.from(`*${answer.length}\r\n`), ...answer.map(encode)])
  if (typeof answer === 'number') return Buffer.from(`:${answer}\r\n`)
  if (!Buffer.isBuffer(answer)) return Buffer.from('$-1\r\n')
  return Buffer.concat([Buffer.from(`$${answer.length}\r\n`), answer, Buffer.from('\r\n')])
}
