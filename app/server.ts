import { lookup } from 'node:dns/promises'
import { isatty } from 'node:tty'
import { build } from './app.js'
import { ConfigError, isMistake } from './check.js'
import { DEVELOPMENT_KEY, handlerTimeoutOf, readConfig } from './config.js'
import type { Config } from './config-schema.js'
import { LineWriter } from './lines/line-writer.js'
import { captchaExample } from './schemas/captcha.js'

/** How much longer than any handler closing may take, in milliseconds. Sends under way are finished. */
const CLOSE_SLACK = 15_000

const STDOUT = 1
const inTerminal = isatty(STDOUT)

/**
 * How long a repeated signal counts as the same one, in milliseconds: npm passes on a signal that its whole process
 * group has already got.
 */
const ONE_SIGNAL = 1_000

// Accessing `process.stdout` makes a full pipe answer EAGAIN, rather than make the process wait.
process.stdout.on('error', () => {})
// The reader of stderr may be gone, together with that of the log.
process.stderr.on('error', () => {})
const output = new LineWriter(STDOUT, error => {
  const { code, message } = error as NodeJS.ErrnoException
  // A slow reader is waited for.
  if (code !== 'EAGAIN') console.error(`standard output: ${message}`)
})
const print = (line: string) => output.write(`${line}\n`)

type App = Awaited<ReturnType<typeof build>>

async function serve(): Promise<void> {
  const config = readConfig(process.env)
  // Without a listener Node would open its debugger, which asks for no password, to everybody on this machine.
  if (config.NODE_ENV === 'production') process.on('SIGUSR1', () => {})
  const building = build(config, { logStream: output, ...(config.NODE_ENV === 'development' && { print }) })
  let stopping = false
  // A signal that comes during the start waits: the file that it is about may have been read before it was changed.
  process.on('SIGHUP', () => {
    endWithTerminal()
    building.then(
      app => stopping || reload(app),
      () => {}
    )
  })
  const starting = building.then(app => start(app, config, () => stopping))
  const stop = (signal: string) => {
    if (stopping) return
    stopping = true
    const exit = () => process.exit(1)
    // A second signal ends the process at once. This needs a listener, too (see below).
    const exitOnSignal = () => {
      for (const name of SIGNALS) process.on(name, exit)
    }
    setTimeout(exitOnSignal, ONE_SIGNAL).unref()
    setTimeout(exit, handlerTimeoutOf(config) + CLOSE_SLACK).unref()
    building.then(
      app => app.log.info({ signal }, 'closing'),
      () => {}
    )
    // Waits for the start: an app that is closed during it would listen all the same, and never end.
    starting
      .then(() => building)
      .then(app => app.close())
      .then(() => output.close())
      // Under node:cluster and pm2 the channel to the parent would hold the process.
      .then(() => process.channel?.unref())
      .catch(fail)
  }
  // From the beginning: without a listener, the first process of a container gets no signal.
  for (const name of SIGNALS) process.on(name, stop)
  await starting
}

async function start(app: App, config: Config, isStopping: () => boolean): Promise<void> {
  if (isStopping()) return
  await app.ready()
  const { HOST: host, PORT: port } = config
  try {
    // For the name localhost, Fastify makes a server for each address, but the app's plugins know only the first one.
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

/**
 * Ends the process if the SIGHUP came since its terminal was closed, as it would end a process without a listener:
 * nothing can be written there any more.
 */
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
  // Requests without a key, and with the key of development, may send.
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

/** Stands in for the plugin's message, which names an option for which the API has no variable. */
const OTHER_SECRET =
  'LIMIT_SECRET is not the one that is in use on this Redis. Give all processes one secret. To change it, set RECIPIENT_SECRET to the former one, unless it is set, stop all of them and delete the key sl:secret; codes and counts are lost. See docs/runbook.md.'

function fail(error: unknown): never {
  const { code, message } = error as { code?: unknown; message?: string }
  const text = code === 'FST_SEND_LIMIT_SECRET_MISMATCH' ? OTHER_SECRET : message
  // A mistake that an operator can correct needs no stack.
  console.error(isMistake(error) ? `Not started: ${text}` : error)
  process.exit(1)
}

serve().catch(fail)
