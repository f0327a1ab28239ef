import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { until } from './until.js'

/** A server, from its start on. */
export interface Launched {
  pid: number
  ended: boolean
  /** Kills it, as a crash would, and waits for its end. */
  kill(): Promise<void>
}

// Each line is a command. With the last one, which comes with the end of the test process, all of the group goes.
const LOOP = 'while read -r line; do eval "$line" & done; kill -KILL 0'

/** By its number each server that runs. */
const servers = new Map<string, Launched>()
let launched = 0
let input: Socket | undefined

/** A shell that starts servers, since to fork a process as large as that of a test takes as long as Redis itself. */
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
 * @param command none of its words has several lines
 * @param log the file that it writes to
 * @param env what it has besides the environment of this process
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
