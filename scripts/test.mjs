import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { installDependencies, root, stop } from './install.mjs'
import { runTestFile } from './test-file.mjs'
import { transpile } from './transpile.mjs'

const colour = process.stdout.isTTY ? [] : ['--colors=off']
const bin = name => `${root}/node_modules/.bin/${name}`
/** Three more than there are cores, since tests also wait; at most eight, to bound the number of Redis servers. */
const jobs = Math.min(availableParallelism() + 3, 8)

/** All test files, or those named. In reverse order, which happens to leave no long one for the end. */
function testFiles(named) {
  for (const file of named) if (!existsSync(join(root, file))) stop(`There is no test file ${file}.`)
  if (named.length > 0) return named
  return readdirSync(join(root, 'test'), { recursive: true })
    .filter(file => file.endsWith('.test.ts') && !file.startsWith('fixtures'))
    .map(file => join('test', file))
    .sort()
    .reverse()
}

/** Runs a check of all files, and prints what it found. @returns whether it found nothing */
async function check(name, ...args) {
  // The compiler, a Go program, needs a tenth more memory without its garbage collector, and a quarter less time.
  const env = { ...process.env, GOGC: 'off' }
  const child = spawn(bin(name), args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', text => (printed += text))
  const code = await new Promise(resolve => child.on('error', resolve).on('close', resolve))
  console.log(`# ${name}\n${printed}`.trimEnd())
  return code === 0
}

/** Runs test files, several at a time. @returns the sums of their counts, and the files that failed */
async function runTests(files) {
  const running = new Set()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.once(signal, () => {
      for (const child of running) child.kill(signal)
      process.exit(1)
    })
  const track = child => running.add(child.on('close', () => running.delete(child)))
  const waiting = [...files]
  const sums = { pass: 0, fail: 0, skip: 0, todo: 0 }
  const failed = []
  const work = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const { passed, counts, printed } = await runTestFile(file, track)
      console.log(printed)
      for (const name of Object.keys(sums)) sums[name] += counts?.[name] ?? 0
      if (passed) continue
      failed.push(file)
      // A file that broke off counts as a failure, even if no test failed.
      if (!counts?.fail) sums.fail++
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
  return { ...sums, failed }
}

const files = testFiles(process.argv.slice(2))
const tools = spawn(process.execPath, [join(root, 'scripts/test-tools.mjs')], {
  stdio: ['ignore', 'inherit', 'inherit']
})
const installed = new Promise(resolve => tools.on('close', resolve))
installDependencies()
if ((await installed) !== 0) process.exit(1)

// These run while the tests do.
const checks = {
  biome: check('biome', 'check', '--error-on-warnings', ...colour, '.'),
  // Several checkers would compute the same types, on cores that the tests need.
  tsc: check('tsc', '--noEmit', '--checkers', '1')
}
const { pass, fail, skip, todo, failed } = await transpile().then(
  () => runTests(files),
  error => {
    console.log(error.message)
    return { pass: 0, fail: 1, skip: 0, todo: 0, failed: [] }
  }
)
const broken = []
for (const [name, good] of Object.entries(checks)) if (!(await good)) broken.push(name)
for (const file of failed) console.log(`Failed: ${file}`)
if (broken.length > 0) console.log(`Failed beside the tests: ${broken.join(', ')}`)

const skipped = skip + todo
console.log(`${pass} passed, ${fail} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exitCode = fail === 0 && broken.length === 0 ? 0 : 1
