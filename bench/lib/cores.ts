import { spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'

/** Where what is measured runs; the load generator runs on the other core. */
export const SERVER_CORE = 0
export const LOAD_CORE = 1

const pins = availableParallelism() > 1 && spawnSync('taskset', ['--version']).status === 0

/** Holds a process to one core; does nothing where there is one core, or no taskset. */
export function pin(pid: number, core: number): void {
  if (pins) spawnSync('taskset', ['-acp', String(core), String(pid)])
}

export function pinning(): string {
  return pins ? 'load and what is measured on different cores' : 'not bound to cores'
}
