import { once } from 'node:events'
import { mock } from 'node:test'
import { Worker } from 'node:worker_threads'
import type { FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { FilterChain } from '../../plugin/filter-chain.js'
import type { FilterResult } from '../../plugin/index.js'
import { within } from '../../plugin/within.js'
import { activeTimers } from '../helper/active-timers.js'

const late = () => new Error('late')

/** A promise, and the function that fulfils it. */
function pending<T>() {
  let fulfil = (_: T) => {}
  const promise = new Promise<T>(resolve => {
    fulfil = resolve
  })
  return { promise, fulfil }
}

/** Timers that fire only when the test calls them, as if the process had been busy. */
function heldTimers(t: Test): (() => void)[] {
  const timers: (() => void)[] = []
  const { setTimeout } = globalThis
  const mocked = mock.method(globalThis, 'setTimeout', (then: () => void) => {
    timers.push(then)
    return setTimeout(() => {}, 0)
  })
  t.teardown(() => mocked.mock.restore())
  return timers
}

t.test('an answer that came while this process was busy is in time', async t => {
  const state = new Int32Array(new SharedArrayBuffer(4))
  const answering = `
    const { parentPort, workerData } = require('node:worker_threads')
    parentPort.once('message', () => {
      parentPort.postMessage('answer')
      Atomics.store(workerData, 0, 1)
      Atomics.notify(workerData, 0)
    })`
  const worker = new Worker(answering, { eval: true, workerData: state })
  await once(worker, 'online')
  // The timers phase comes next.
  await new Promise(setImmediate)
  const answer = within(
    once(worker, 'message').then(([what]) => what),
    10,
    late
  )
  const busyUntil = performance.now() + 100
  worker.postMessage('question')
  Atomics.wait(state, 0, 0)
  while (performance.now() < busyUntil);
  t.equal(await answer, 'answer')
})

t.test('when the time runs out in a busy process, the answer still has one turn', async t => {
  const timers = heldTimers(t)
  const answer = pending<string>()
  const asked = within(answer.promise, 1_000, late)
  timers.shift()?.()
  await new Promise(setImmediate)
  answer.fulfil('answer')
  t.equal(await asked, 'answer')
  t.equal(timers.length, 1)
})

t.test('a pass of a filter that is read at the end of its time is not undone', async t => {
  const timers = heldTimers(t)
  const pass = pending<FilterResult>()
  const undone: string[] = []
  const chain = new FilterChain({} as FastifyRequest, 1_000)
  const checked = chain.check([{ name: 'list', check: () => pass.promise }])
  timers.shift()?.()
  timers.shift()?.()
  pass.fulfil({ allowed: true, undo: () => void undone.push('undone') })
  t.equal(await checked, null)
  await new Promise(setImmediate)
  t.same(undone, [])
})

t.test('without an answer in time `within` rejects, and ignores the answer that comes later', async t => {
  const answer = pending<string>()
  const asked = within(answer.promise, 10, late)
  await t.rejects(asked, late())
  answer.fulfil('answer')
  await t.rejects(asked, late())
  await t.rejects(within(Promise.reject(new Error('own')), 10_000, late), new Error('own'))
})

t.test('an answer in time leaves no timer, which would keep the process up', async t => {
  const before = activeTimers()
  const answered = within(Promise.resolve('answer'), 60_000, late)
  const failed = within(Promise.reject(new Error('own')), 60_000, late)
  t.equal(activeTimers(), before + 2)
  await answered
  await t.rejects(failed, new Error('own'))
  t.equal(activeTimers(), before)
})
