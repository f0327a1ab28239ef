import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Teardown } from './teardown.js'

/** Returns a function that blocks this process for some time, and until Redis has answered what it was asked before. */
export async function busier(t: Teardown, port: number): Promise<(ms: number) => void> {
  const answered = new Int32Array(new SharedArrayBuffer(4))
  const pinging = `
    const { parentPort, workerData: { port, answered } } = require('node:worker_threads')
    const socket = require('node:net').connect(port, '127.0.0.1', () => parentPort.postMessage('connected'))
    socket.on('data', () => {
      Atomics.store(answered, 0, 1)
      Atomics.notify(answered, 0)
    })
    parentPort.on('message', () => socket.write('PING\\r\\n'))`
  const worker = new Worker(pinging, { eval: true, workerData: { port, answered } })
  t.teardown(() => worker.terminate())
  await once(worker, 'message')
  return ms => {
    const end = performance.now() + ms
    Atomics.store(answered, 0, 0)
    worker.postMessage('ping')
    Atomics.wait(answered, 0, 0)
    while (performance.now() < end);
  }
}
