import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Closing } from './closing.js'
import { pin } from './cores.js'

interface Reply {
  result?: unknown
  error?: string
}

const ANSWER_LIMIT_MS = 60_000

/** A process that answers questions, one at a time. */
export class Child {
  private constructor(private readonly process: ChildProcess) {}

  /**
   * @param args the arguments that the module finds after its name in `process.argv`
   * @param options `env`: its environment, in place of this process's; with it, the output of the child is dropped.
   *   `flags`: further flags of V8
   */
  static async start(
    closing: Closing,
    module: string,
    args: string[],
    core: number,
    { env, flags = [] }: { env?: NodeJS.ProcessEnv; flags?: string[] } = {}
  ): Promise<Child> {
    const child = fork(fileURLToPath(module), ['--child', ...args], {
      execArgv: ['--expose-gc', ...flags],
      env: env ?? process.env,
      stdio: ['ignore', env === undefined ? 'inherit' : 'ignore', 'inherit', 'ipc']
    })
    const gone = once(child, 'exit')
    closing.teardown(async () => {
      child.kill('SIGKILL')
      await gone
    })
    const [hello] = (await Promise.race([once(child, 'message'), gone])) as [unknown]
    if (hello !== 'ready') throw new Error(`${args.join(' ')} did not start`)
    pin(child.pid as number, core)
    return new Child(child)
  }

  /**
   * Stops the process until `resume`, so that its background work, such as garbage collection, takes no time from
   * others.
   */
  pause(): void {
    this.process.kill('SIGSTOP')
  }

  resume(): void {
    this.process.kill('SIGCONT')
  }

  async ask<T>(question: unknown): Promise<T> {
    const abort = new AbortController()
    const timer = setTimeout(() => abort.abort(new Error('no answer in time')), ANSWER_LIMIT_MS)
    try {
      const { signal } = abort
      const answered = once(this.process, 'message', { signal })
      const gone = once(this.process, 'exit', { signal }).then(() => {
        throw new Error('the process ended')
      })
      this.process.send(question as object)
      const [{ result, error }] = (await Promise.race([answered, gone])) as [Reply]
      if (error !== undefined) throw new Error(error)
      return result as T
    } finally {
      clearTimeout(timer)
      abort.abort()
    }
  }
}

/** The other side of `Child`: answers until the parent is gone. */
export function answer(handle: (question: never) => unknown): void {
  process.on('message', async question => {
    const reply: Reply = {}
    try {
      reply.result = await handle(question as never)
    } catch (error) {
      reply.error = String((error as Error).stack ?? error)
    }
    process.send?.(reply)
  })
  process.once('disconnect', () => process.exit())
  process.send?.('ready')
}

/** The processor time that this process has used so far, in µs. */
export function cpuTime(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** The arguments of a process that was started by `Child.start`; undefined in any other process. */
export function asked(): string[] | undefined {
  return process.argv[2] === '--child' && process.send ? process.argv.slice(3) : undefined
}
