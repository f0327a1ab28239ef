import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Rule } from '../../../plugin/index.js'
import { moduleOf } from '../../helper/module.js'
import type { Teardown } from '../../helper/teardown.js'
import type { Entrant, Order, Report } from './racer.js'

const racer = moduleOf('test/plugin/workers/racer.ts')

/** Several processes with the same routes on one Redis. */
export class Team {
  private constructor(private readonly workers: readonly ChildProcess[]) {}

  /** Starts the processes; they are gone after the test's teardown. */
  static async start(
    t: Teardown,
    size: number,
    redisUrl: string,
    routes: Record<string, Rule[]>
  ): Promise<Team> {
    const args = [redisUrl, 'race', JSON.stringify(routes)]
    const workers = Array.from({ length: size }, () => fork(racer, args))
    t.teardown(() => workers.map(worker => worker.kill('SIGKILL')))
    await Promise.all(workers.map(worker => once(worker, 'message')))
    return new Team(workers)
  }

  /** Makes all requests at once, spread over the processes. @returns their status codes, in order */
  async race(requests: readonly Entrant[]): Promise<number[]> {
    const { done } = this.begin(requests, false)
    return done
  }

  /**
   * Makes all requests at once. Handlers wait until all other requests are answered.
   * @returns their status codes, in order, and how many handlers ran at the same time
   */
  async raceAndWait(requests: readonly Entrant[]): Promise<{ statuses: number[]; inside: number }> {
    const { done, quiet } = this.begin(requests, true)
    const inside = await quiet
    for (const worker of this.workers) tell(worker, 'go')
    return { statuses: await done, inside }
  }

  private begin(requests: readonly Entrant[], wait: boolean) {
    const { workers } = this
    const statuses: number[] = []
    const counts = workers.map(() => ({ waiting: 0, answered: 0 }))
    let left = workers.length
    let finish: (statuses: number[]) => void
    let settle: (inside: number) => void
    const done = new Promise<number[]>(resolve => {
      finish = resolve
    })
    const quiet = new Promise<number>(resolve => {
      settle = resolve
    })
    workers.forEach((worker, i) => {
      const listen = (report: Report) => {
        if ('statuses' in report) {
          for (const [j, status] of report.statuses.entries()) statuses[j * workers.length + i] = status
          worker.off('message', listen)
          if (--left === 0) finish(statuses)
        }
        counts[i] = 'statuses' in report ? { waiting: 0, answered: report.statuses.length } : report
        const inside = counts.reduce((sum, each) => sum + each.waiting, 0)
        const answered = counts.reduce((sum, each) => sum + each.answered, 0)
        if (inside + answered === requests.length) settle(inside)
      }
      worker.on('message', listen)
    })
    workers.forEach((worker, i) => {
      tell(worker, { requests: requests.filter((_, j) => j % workers.length === i), wait })
    })
    return { done, quiet }
  }
}

function tell(worker: ChildProcess, order: Order): void {
  worker.send(order)
}
