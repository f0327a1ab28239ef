import { spawnSync } from 'node:child_process'

/** Why to skip a test that needs this program; false if the program is there. */
export const without = (program: string) =>
  spawnSync(program, ['--version']).error !== undefined && `there is no ${program}`
