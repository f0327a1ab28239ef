import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

interface Ended {
  status: number | null
  stdout: string
  stderr: string
}

// Not passed on: what makes this process run TypeScript, and whatever else its runner has set.
const { NODE_OPTIONS: _, ...inherited } = process.env

/** Runs a command to its end in a folder, with the environment of this process and what is added to it. */
export async function run(
  cwd: string,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {}
): Promise<Ended> {
  const child = spawn(command, args, {
    cwd,
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const [[status], stdout, stderr] = await Promise.all([
    once(child, 'close'),
    text(child.stdout),
    text(child.stderr)
  ])
  return { status, stdout, stderr }
}

/** As `run`, for what must succeed. @throws Error with everything that it printed */
export async function must(
  cwd: string,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {}
): Promise<string> {
  const { status, stdout, stderr } = await run(cwd, command, args, env)
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}:\n${stdout}${stderr}`)
  return stdout
}
