import type { Test } from 'tap'
import { blocks } from './promises/blocks.js'
import { costs } from './promises/costs.js'
import { counts } from './promises/counts.js'
import { decisions } from './promises/decisions.js'
import { distincts } from './promises/distinct.js'
import { elsewhere } from './promises/elsewhere.js'
import { locks } from './promises/locks.js'
import { logs } from './promises/logs.js'
import { refunds } from './promises/refunds.js'
import { type Opened, Subject } from './promises/subject.js'

/** Opens a new store for each promise, whose clock starts at this date. */
type Open = (t: Test, start: string) => Promise<Opened>

const promises = [
  ...decisions,
  ...logs,
  ...counts,
  ...costs,
  ...distincts,
  ...locks,
  ...refunds,
  ...blocks,
  ...elsewhere
]

/** Tests that a store keeps every promise. */
export async function storeContract(t: Test, name: string, open: Open): Promise<void> {
  for (const [i, [promise, see]] of promises.entries()) {
    await t.test(`${name} ${i + 1}: ${promise}`, async t =>
      see(new Subject(t, await open(t, '2026-03-01T00:00:00Z')))
    )
  }
}
