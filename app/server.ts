import { lookup } from 'node:dns/promises'
import { isatty } from 'node:tty'
import { build } from './app.js'
import { ConfigError, isMistake } from './check.js'
import { type Config, DEVELOPMENT_KEY, handlerTimeoutOf, readConfig } from './config.js'
import { LineWriter } from './lines/line-writer.js'
import { captchaExample } from './schemas/captcha.js'

/** What closing may take on top of any handler, in milliseconds: what is being sent is finished. */
const CLOSE_SLACK = 15_000

const STDOUT = 1
const inTerminal = isatty(STDOUT)

/** How long a signal that comes again is taken for the same one, in milliseconds: npm hands on what its whole group has got. */
const ONE_SIGNAL = 1_000

// To look at it makes a pipe answer EAGAIN when it is full, in place of making the process wait.
process.stdout.on('error', () => {})
// Who read it may have gone with who read the log.
process.stderr.on('error', () => {})
const output = new LineWriter(STDOUT, error => {
  const { code, message } = error as NodeJS.ErrnoException
  // A reader that is slow is waited for.
  if (code !== 'EAGAIN') console.error(`standard output: ${message}`)
})
const print = (line: string) => output.write(`${line}\n`)

type App = Awaited<ReturnType<typeof build>>

async function serve(): Promise<void> {
  const config = readConfig(process.env)
  const building = build(config, { logStream: output, ...(config.NODE_ENV === 'development' && { print }) })
  // One that comes meanwhile waits: what it is about may have been read before it was changed.
  process.on('SIGHUP', () => {
    endWithTerminal()
    building.then(reload, () => {})
  })
  const app = await building
  let stopping = false
  let starting = Promise.resolve()
  const stop = (signal: string) => {
    if (stopping) return
    stopping = true
    app.log.info({ signal }, 'closing')
    // A second signal finds no listener and ends the process at once.
    const listenNoMore = () => {
      for (const name of SIGNALS) process.removeListener(name, stop)
    }
    setTimeout(listenNoMore, ONE_SIGNAL).unref()
    setTimeout(() => process.exit(1), handlerTimeoutOf(config) + CLOSE_SLACK).unref()
    // An app that is closed while it starts would listen all the same, and never end.
    starting
      .then(() => app.close())
      .then(() => output.close())
      .catch(fail)
  }
  for (const name of SIGNALS) process.on(name, stop)
  starting = start(app, config, () => stopping)
  await starting
}

async function start(app: App, config: Config, isStopping: () => boolean): Promise<void> {
  await app.ready()
  const { HOST: host, PORT: port } = config
  try {
    // Under the name localhost Fastify makes a server for each of its addresses; the app knows the first one alone.
    const { address } = await lookup(host, { order: 'ipv4first' })
    if (isStopping()) return
    const url = await app.listen({ host: address, port })
    if (config.NODE_ENV === 'production') return
    for (const line of greeting(url, config, app)) print(line)
  } catch (error) {
    const { message } = error as Error
    throw new ConfigError(
      `nobody can listen at HOST (${JSON.stringify(host)}) and PORT (${port}): ${message}`
    )
  }
}

/** A terminal that is closed says so by SIGHUP, which ends a process that listens to none; nothing can be written there any more. */
function endWithTerminal(): void {
  if (!inTerminal || isatty(STDOUT)) return
  process.removeAllListeners('SIGHUP')
  process.kill(process.pid, 'SIGHUP')
}

function reload(app: App): void {
  try {
    app.reload()
  } catch (error) {
    app.log.error({ err: error }, 'the policy, the templates and the accounts in force stay')
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

function greeting(address: string, config: Config, { accounts, policy }: App): string[] {
  const lines = [`Listening on ${address}`, `Documentation: ${address}/docs`]
  // Somebody without a key, and the key of development, may send.
  if (accounts.anonymous !== null) {
    const example = captchaExample(policy.purposes)
    const curl = `curl ${address}/v1/captcha -H 'content-type: application/json'`
    if (example !== undefined) lines.push(`Try it twice: ${curl} -d '${JSON.stringify(example)}'`)
    lines.push(`x-api-key in development: ${DEVELOPMENT_KEY}`)
  }
  if (config.DEV_OUTBOX === 'on')
    lines.push(`The outbox (what is not really sent): ${address}/v1/dev/outbox, and below`)
  return lines
}

/** In place of the plugin's words, which name an option that the API has no variable for. */
const OTHER_SECRET =
  'LIMIT_SECRET is not the one that is in use on this Redis. Give all processes one secret. To change it, set RECIPIENT_SECRET to the former one, unless it is set, stop all of them and delete the key sl:secret; codes and counts are lost. See docs/runbook.md.'

function fail(error: unknown): never {
  const { code, message } = error as { code?: unknown; message?: string }
  const said = code === 'FST_SEND_LIMIT_SECRET_MISMATCH' ? OTHER_SECRET : message
  // What an operator can put right needs no stack.
  console.error(isMistake(error) ? `Not started: ${said}` : error)
  process.exit(1)
}

serve().catch(fail)
