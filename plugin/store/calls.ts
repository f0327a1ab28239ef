import { answersOf } from './answer.js'
import { Batch } from './batch.js'
import type { Argument, IoredisExtras, RedisClient } from './client.js'
import { isReply, notQueued, withoutCommand } from './redis-errors.js'
import type { Script } from './scripts.js'

class Call {
  constructor(
    readonly script: Script,
    readonly keys: readonly string[],
    readonly args: readonly Argument[],
    readonly resolve: (answer: unknown) => void,
    readonly reject: (error: unknown) => void
  ) {}
}

/**
 * Calls scripts. Calls that leave together (batch.ts) leave in one write, on a cluster in one write to each node. Among
 * them decisions by the same script share a command, and so do refunds, but not on a cluster.
 */
export class Calls {
  private readonly client: RedisClient & IoredisExtras
  private readonly batch = new Batch<Call>(calls => this.send(calls))
  private stream: IoredisExtras['stream']

  /** @param sharded whether the keys of several calls may be on different nodes */
  constructor(
    client: RedisClient,
    private readonly sharded: boolean
  ) {
    this.client = client as RedisClient & IoredisExtras
  }

  /** @returns the reply of Redis; of a script that decides an `Answer` */
  call(script: Script, keys: readonly string[], args: readonly Argument[]): Promise<unknown> {
    const { stream } = this.client
    // Calls that a lost connection has left unanswered may never settle (retry.ts).
    if (stream !== this.stream) this.batch.lost()
    this.stream = stream
    return new Promise((resolve, reject) => this.batch.add(new Call(script, keys, args, resolve, reject)))
  }

  private send(calls: readonly Call[]): void {
    const connections = this.client.nodes?.('master') ?? [this.client]
    const streams = connections.map(({ stream }) => stream)
    for (const stream of streams) stream?.cork()
    for (const together of this.commandsOf(calls)) void this.run(together)
    for (const stream of streams) stream?.uncork()
  }

  /**
   * Gathers calls into commands; where keys are sharded each call is a command of its own. A decision overtakes no call
   * but decisions by other scripts. A refund overtakes decisions alone, and takes nothing from them.
   */
  private commandsOf(calls: readonly Call[]): Call[][] {
    const commands: Call[][] = []
    const open = new Map<Script | string, Call[]>()
    for (const call of calls) {
      const { maxDecisions, maxRefunds, sharedArgument } = call.script
      const most = maxDecisions ?? maxRefunds ?? 1
      const same = sharedArgument ?? call.script
      const others = open.get(same)
      if (others !== undefined && others.length < most) {
        others.push(call)
        continue
      }
      const command = [call]
      commands.push(command)
      const gathers = most > 1 && !this.sharded
      if (!gathers || maxRefunds) open.clear()
      if (gathers) open.set(same, command)
    }
    return commands
  }

  private async run(calls: readonly Call[]): Promise<void> {
    const { script } = calls[0] as Call
    try {
      const reply = notQueued(await this.reply(script, calls))
      const answers = script.maxDecisions ? answersOf(reply as Buffer, calls.length) : [reply]
      this.batch.answered(calls.length)
      for (const [i, { resolve }] of calls.entries()) resolve(answers[i])
    } catch (error) {
      // The command has written nothing, or refunds, which may be repeated. So each call is made alone: what fails for
      // one fails for no other.
      if (calls.length > 1 && isReply(error)) {
        for (const call of calls) void this.run([call])
        return
      }
      // With `enableAutoPipelining`, a cluster's client follows no MOVED in a pipeline in which another command has
      // written, and does not learn from it where the slot is. With `maxRedirections: 0` it follows none at all.
      if (/\bMOVED\b/.test((error as Error).message)) this.client.refreshSlotsCache?.()
      this.batch.answered(calls.length)
      for (const { reject } of calls) reject(withoutCommand(error))
    }
  }

  private async reply(script: Script, calls: readonly Call[]): Promise<unknown> {
    const keys = calls.flatMap(call => call.keys)
    const args = calls.flatMap(call => call.args)
    if (script.sharedArgument !== undefined) args.push(script.sharedArgument)
    if (!script.unsent) {
      try {
        return await this.client.evalshaBuffer(script.sha, keys.length, ...keys, ...args)
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      }
    }
    script.unsent = false
    try {
      return await this.client.evalBuffer(script.text, keys.length, ...keys, ...args)
    } catch (error) {
      // To call it by its hash again could fail for ever: a client that reconnects after each error reply, NOSCRIPT too,
      // turns away what follows.
      if (!isReply(error)) script.unsent = true
      throw error
    }
  }
}
