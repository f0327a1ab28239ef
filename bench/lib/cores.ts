import { spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'

/** The core of what is measured; the load generator runs on the other one. */
export const SERVER_CORE = 0
export const LOAD_CORE = 1

const pins = availableParallelism() > 1 && spawnSync('taskset', ['--version']).status === 0

/** Binds a process to one core. Does nothing if there is only one core, or no taskset. */
export function pin(pid: number, core: number): void {
  if (pins) spawnSync('taskset', ['-acp', String(core), String(pid)])
}

export function pinning(): string {
  return pins ? 'load and what is measured on different cores' : 'not bound to cores'
}
