import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { createInterface } from 'node:readline'
import { installDependencies, installTestTools, root } from './install.mjs'
import { tapView } from './tap-view.mjs'
import { transpile } from './transpile.mjs'

const colour = process.stdout.isTTY ? [] : ['--colors=off']
const bin = name => `${root}/node_modules/.bin/${name}`
/** One more than there are cores, for tests wait, too; not more Redis servers than a machine likes. */
const jobs = Math.min(availableParallelism() + 1, 8)

/** Runs a check of all files, and says what it has found. @returns whether it found nothing */
async function check(name, ...args) {
  const child = spawn(bin(name), args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', text => (printed += text))
  const code = await new Promise(resolve => child.on('error', resolve).on('close', resolve))
  console.log(`# ${name}\n${printed}`.trimEnd())
  return code === 0
}

/** Runs the tests, as they stand in dist-test/. */
async function tap(args) {
  const loader = `--import=${new URL('compiled.mjs', import.meta.url)}`
  const child = spawn(bin('tap'), ['--reporter=tap', `--jobs=${jobs}`, ...args], {
    cwd: root,
    env: { ...process.env, NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} ${loader}`.trim() },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  const ended = new Promise(resolve => child.on('close', (code, signal) => resolve(code ?? signal)))
  const view = tapView(text => console.log(text))
  for await (const text of createInterface({ input: child.stdout })) view.line(text)
  return { code: await ended, ...view.end() }
}

installDependencies()
installTestTools()

// Beside the tests, which need neither.
const checks = {
  biome: check('biome', 'check', '--error-on-warnings', ...colour, '.'),
  tsc: check('tsc', '--noEmit')
}
const none = { code: 1, counts: null, failed: [] }
const { code, counts, failed } = await transpile().then(
  () => tap(process.argv.slice(2)),
  error => {
    console.log(error.message)
    return none
  }
)
const broken = []
for (const [name, good] of Object.entries(checks)) if (!(await good)) broken.push(name)
for (const file of failed) console.log(`Failed: ${file}`)
if (broken.length > 0) console.log(`Failed beside the tests: ${broken.join(', ')}`)
if (counts === null) console.log(`The tests broke off (${code}) without their counts.`)

// A run that broke off is one failure: what it did before is not known.
const { pass = 0, fail = 0, skip = 0, todo = 0 } = counts ?? { fail: 1 }
const skipped = Number(skip) + Number(todo)
console.log(`${pass} passed, ${fail} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exitCode = code === 0 && counts !== null && broken.length === 0 ? 0 : Number(code) || 1
