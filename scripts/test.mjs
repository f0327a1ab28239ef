import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { bundled } from './compiled-hooks.mjs'
import { installDependencies, installTestTools, root } from './install.mjs'
import { tapView } from './tap-view.mjs'

const colour = process.stdout.isTTY ? [] : ['--colors=off']
const bin = name => `${root}/node_modules/.bin/${name}`
/** One more than there are cores, for tests wait, too; not more Redis servers than a machine likes. */
const jobs = Math.min(availableParallelism() + 1, 8)

const BUNDLE = [
  ...['--bundle', '--splitting', '--format=esm', '--platform=node', '--log-level=warning'],
  ...['--outdir=dist-test/packages', '--chunk-names=chunks/[hash]']
]

/** Runs a command to its end. @returns what it printed, and whether it succeeded */
async function run(command, args) {
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', text => (printed += text))
  const code = await new Promise(resolve => child.on('error', resolve).on('close', resolve))
  return { printed, good: code === 0 }
}

/** @param compiled whether dist-test/ holds what is to be tested; tap transpiles else */
async function tap(files, compiled) {
  const loader = compiled ? `--import=${new URL('compiled.mjs', import.meta.url)}` : ''
  const child = spawn(bin('tap'), ['--disable-coverage', '--reporter=tap', `--jobs=${jobs}`, ...files], {
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

const steps = {
  lint: run(bin('biome'), ['check', '--error-on-warnings', ...colour, '.']),
  // What is found right is written to dist-test/, for the tests to run.
  typecheck: run(bin('tsc'), ['--project', 'tsconfig.test.json', '--sourceRoot', pathToFileURL(root).href]),
  bundle: run(bin('esbuild'), [...bundled, ...BUNDLE])
}
const broken = []
for (const [name, step] of Object.entries(steps)) {
  const { printed, good } = await step
  console.log(`# ${name}\n${printed}`.trimEnd())
  if (!good) broken.push(name)
}

console.log('# test')
const { code, counts, failed } = await tap(
  process.argv.slice(2),
  !broken.includes('typecheck') && !broken.includes('bundle')
)
for (const file of failed) console.log(`Failed: ${file}`)
if (broken.length > 0) console.log(`Failed before the tests: ${broken.join(', ')}`)
if (counts === null) console.log(`tap broke off (${code}) without its counts.`)

// A run that broke off is one failure: what it did before is not known.
const { pass = 0, fail = 0, skip = 0, todo = 0 } = counts ?? { fail: 1 }
const skipped = Number(skip) + Number(todo)
console.log(`${pass} passed, ${fail} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exitCode = code === 0 && counts !== null && broken.length === 0 ? 0 : Number(code) || 1
