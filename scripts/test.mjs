import { spawn, spawnSync } from 'node:child_process'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { build, compile } from './build.mjs'
import { installDependencies, installTestTools, root } from './install.mjs'
import { tapView } from './tap-view.mjs'

const colour = process.stdout.isTTY ? [] : ['--colors=off']
const bin = name => `${root}/node_modules/.bin/${name}`

function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
  return status === 0
}

/** @param compiled whether dist-test/ holds what is to be tested; tap transpiles else */
async function tap(files, compiled) {
  const loader = compiled ? `--import=${new URL('compiled.mjs', import.meta.url)}` : ''
  const child = spawn(bin('tap'), ['--disable-coverage', '--reporter=tap', '--jobs=2', ...files], {
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
  lint: () => run(bin('biome'), ['check', '--error-on-warnings', ...colour, '.']),
  // What is found right is written to dist-test/, for the tests to run.
  typecheck: () => compile('tsconfig.test.json', 'dist-test', '--sourceRoot', pathToFileURL(root).href),
  build
}
const broken = []
for (const [name, step] of Object.entries(steps)) {
  console.log(`# ${name}`)
  if (!step()) broken.push(name)
}

console.log('# test')
const { code, counts, failed } = await tap(process.argv.slice(2), !broken.includes('typecheck'))
for (const file of failed) console.log(`Failed: ${file}`)
if (broken.length > 0) console.log(`Failed before the tests: ${broken.join(', ')}`)
if (counts === null) console.log(`tap broke off (${code}) without its counts.`)

// A run that broke off is one failure: what it did before is not known.
const { pass = 0, fail = 0, skip = 0, todo = 0 } = counts ?? { fail: 1 }
const skipped = Number(skip) + Number(todo)
console.log(`${pass} passed, ${fail} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exitCode = code === 0 && counts !== null && broken.length === 0 ? 0 : Number(code) || 1
