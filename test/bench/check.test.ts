import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { scriptOf } from '../helper/module.js'

const script = scriptOf('bench/check.ts')
const ratio = (name: string, median: number) => ({ name, median, min: median, max: median })
const about = { date: '2026-11-26', machine: 'ours', node: 'v20', rounds: 5 }

/** Asks what has moved from `kept` to `now`. */
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

t.test('what is as it was', async t => {
  t.match(check(t, [ratio('ours', 1)], { ratios: [ratio('ours', 1.01)] }), {
    status: 0,
    stdout: /0 of 1 have/
  })
})

t.test('what has moved', async t => {
  t.match(check(t, [ratio('ours', 1)], { ratios: [ratio('ours', 0.5)] }), {
    status: 1,
    stdout: /moved: ours/
  })
})

t.test('what spreads by more than its median', async t => {
  const wide = { name: 'ours', median: 1.86, min: 0.949, max: 5.81 }
  const within = { name: 'ours', median: 1.1, min: 0.6, max: 3 }
  t.match(check(t, [wide], { ratios: [within] }), { status: 0 })
  t.match(check(t, [wide], { ratios: [ratio('ours', 0.05)] }), { status: 1, stdout: /moved: ours/ })
})

t.test('what is not measured any more', async t => {
  t.match(check(t, [ratio('ours', 1), ratio('peer', 1)], { ratios: [ratio('peer', 1)] }), {
    status: 1,
    stdout: /gone: ours/
  })
})

t.test('one round is compared no more than it is kept', async t => {
  for (const flags of [[], ['--keep']])
    t.match(check(t, [ratio('ours', 1)], { rounds: 1, ratios: [ratio('ours', 0.5)] }, ...flags), {
      status: 1,
      stderr: /one round says nothing/
    })
})

t.test('what is gone is one of those that were kept', async t => {
  t.match(check(t, [ratio('ours', 1), ratio('peer', 1)], { ratios: [ratio('peer', 0.5)] }), {
    status: 1,
    stdout: /2 of 2 have/
  })
})
