import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { until } from './until.js'

/** A server that has been started. */
export interface Launched {
  pid: number
  ended: boolean
  /** Kills the server, as a crash would, and waits for its end. */
  kill(): Promise<void>
}

// Each line is a command. The input ends with the test process; then the whole process group is killed.
const LOOP = 'while read -r line; do eval "$line" & done; kill -KILL 0'

/** The servers that run, by their numbers. */
const servers = new Map<string, Launched>()
let launched = 0
let input: Socket | undefined

/** Opens a shell to start servers, since forking a process as large as a test's takes as long as the start of Redis. */
function openShell(): Socket {
  const shell = spawn('sh', ['-c', LOOP], { detached: true, stdio: ['pipe', 'pipe', 'ignore'] })
  const [stdin, stdout] = [shell.stdin as Socket, shell.stdout as Socket]
  for (const each of [shell, stdin, stdout]) each.unref()
  createInterface({ input: stdout }).on('line', line => {
    const [number = '', said] = line.split(' ')
    const server = servers.get(number) as Launched
    if (said === 'ended') server.ended = true
    else server.pid = Number(said)
    if (server.ended) servers.delete(number)
  })
  return stdin
}

const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`

/**
 * Starts a server, which ends with this process, however that ends.
 * @param command words without line breaks
 * @param log the file that takes its output
 * @param env variables in addition to the environment of this process
 */
export async function launch(
  command: readonly string[],
  log: string,
  env: Readonly<Record<string, string>>
): Promise<Launched> {
  input ??= openShell()
  const shell = input
  const number = `${launched++}`
  const server: Launched = {
    pid: 0,
    ended: false,
    async kill() {
      if (!server.ended) shell.write(`kill -KILL ${server.pid}\n`)
      await until(() => server.ended, 'the end of a server')
    }
  }
  servers.set(number, server)
  const variables = Object.entries(env).map(([name, value]) => `${name}=${quoted(value)}`)
  const start = `${[...variables, ...command.map(quoted)].join(' ')} </dev/null >${quoted(log)} 2>&1`
  shell.write(`${start} & echo ${number} $!; wait $!; echo ${number} ended\n`)
  await until(() => server.pid > 0, 'the start of a server')
  return server
}
