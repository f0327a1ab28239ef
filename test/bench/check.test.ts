import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { scriptOf } from '../helper/module.js'

const script = scriptOf('bench/check.ts')
const ratio = (name: string, median: number) => ({ name, median, min: median, max: median })
const about = { date: '2026-11-26', machine: 'ours', node: 'v20', rounds: 5 }

/** Runs the check of what has moved from `kept` to `report`. */
function check(t: Test, kept: object[], report: object, ...flags: string[]) {
  const cwd = t.testdir()
  mkdirSync(join(cwd, 'bench'))
  const figures = join(cwd, 'bench/figures.json')
  writeFileSync(figures, JSON.stringify({ http: { ...about, ratios: kept } }))
  writeFileSync(join(cwd, 'now.json'), JSON.stringify({ bench: 'http', ...about, ...report }))
  const args = [...process.execArgv, script, ...flags, 'now.json']
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8' })
  return { status, stdout, stderr, kept: JSON.parse(readFileSync(figures, 'utf8')) }
}

t.test('a figure that is as it was passes', async t => {
  t.match(check(t, [ratio('ours', 1)], { ratios: [ratio('ours', 1.01)] }), {
    status: 0,
    stdout: /0 of 1 have/
  })
})

t.test('a figure that has moved fails', async t => {
  t.match(check(t, [ratio('ours', 1)], { ratios: [ratio('ours', 0.5)] }), {
    status: 1,
    stdout: /moved: ours/
  })
})

t.test('a figure that spread by more than its median passes within that, and fails outside', async t => {
  const wide = { name: 'ours', median: 1.86, min: 0.949, max: 5.81 }
  const within = { name: 'ours', median: 1.1, min: 0.6, max: 3 }
  t.match(check(t, [wide], { ratios: [within] }), { status: 0 })
  t.match(check(t, [wide], { ratios: [ratio('ours', 0.05)] }), { status: 1, stdout: /moved: ours/ })
})

t.test('a figure that is no longer measured fails', async t => {
  t.match(check(t, [ratio('ours', 1), ratio('peer', 1)], { ratios: [ratio('peer', 1)] }), {
    status: 1,
    stdout: /gone: ours/
  })
})

t.test('a report of one round is neither compared nor kept', async t => {
  for (const flags of [[], ['--keep']])
    t.match(check(t, [ratio('ours', 1)], { rounds: 1, ratios: [ratio('ours', 0.5)] }, ...flags), {
      status: 1,
      stderr: /one round says nothing/
    })
})

t.test('a figure that is gone counts as one of those that were kept', async t => {
  t.match(check(t, [ratio('ours', 1), ratio('peer', 1)], { ratios: [ratio('peer', 0.5)] }), {
    status: 1,
    stdout: /2 of 2 have/
  })
})
