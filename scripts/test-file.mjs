import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { root } from './install.mjs'
import { outdir } from './transpile.mjs'

/** How long the tests of one file may take before tap ends them; and how long the process may, if tap does not. */
const TEST_SECONDS = 300
const PROCESS_MS = (TEST_SECONDS + 30) * 1_000

/** Delays optimisation, which costs more than it saves in a process of some seconds. Node 22 has no such flag. */
const later = process.version.startsWith('v20.') ? ['--interrupt-budget=500000'] : []
const FLAGS = ['--enable-source-maps', ...later]

const LEFT_OUT = /^ *ok \d+.* # (SKIP|TODO)/
const PASSED = /^( *)ok \d+(?: - (.*?))?(?: # time=\S+)?$/
const COUNTS = /^# \{ total: \d.* \}$/

/**
 * Runs a compiled test file of dist-test/ in a process of its own. Under tap's own runner, each process would also load
 * the code for coverage and mocks, which takes as long as many a test.
 * @param track called with the process, so that the caller can end it
 * @returns whether all tests passed; tap's counts, null if the file broke off; the part of the output that is worth
 *   reading
 */
export async function runTestFile(file, track) {
  const started = performance.now()
  const script = join(outdir, file.replace(/\.ts$/, '.js'))
  const child = spawn(process.execPath, [...FLAGS, script], {
    cwd: root,
    // COMPILED is for the processes that a test starts (test/helper/module.ts).
    env: { ...process.env, TAP_TIMEOUT: TEST_SECONDS, COMPILED: outdir },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: PROCESS_MS,
    killSignal: 'SIGKILL'
  })
  track(child)
  let [tap, errors] = ['', '']
  child.stdout.setEncoding('utf8').on('data', text => (tap += text))
  child.stderr.setEncoding('utf8').on('data', text => (errors += text))
  const code = await new Promise(resolve => child.on('close', (code, signal) => resolve(code ?? signal)))
  const lines = tap.split('\n')
  const found = lines.findLast(line => COUNTS.test(line))
  const counts = found ? countsOf(found) : null
  const passed = code === 0 && counts !== null
  const shown = passed ? lines.filter(line => LEFT_OUT.test(line)) : unpassed(lines)
  const seconds = ((performance.now() - started) / 1_000).toFixed(1)
  const end = `${passed ? 'ok' : `not ok (${code})`} - ${file} # ${counts?.pass ?? 0} passed, ${seconds} s`
  return { passed, counts, printed: [errors.trimEnd(), ...shown, end].filter(text => text !== '').join('\n') }
}

/** Reads a line such as `# { total: 9, pass: 8, fail: 1 }`. */
function countsOf(line) {
  return Object.fromEntries([...line.matchAll(/(\w+): (\d+)/g)].map(([, name, n]) => [name, Number(n)]))
}

/** Drops assertions that passed, and subtests that passed, except for what they skipped. */
function unpassed(lines) {
  const kept = []
  for (const line of lines) {
    const [, indent, name] = PASSED.exec(line) ?? []
    if (indent === undefined || LEFT_OUT.test(line)) {
      kept.push(line)
      continue
    }
    const start = kept.lastIndexOf(`${indent}# Subtest: ${name}`)
    if (start === -1) continue
    const inner = kept.slice(start + 1)
    if (!inner.every(each => each.trim() === '' || each.startsWith(`${indent}    `))) continue
    kept.splice(start, kept.length, ...inner.filter(each => LEFT_OUT.test(each)))
  }
  return kept
}
