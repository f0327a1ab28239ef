import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { folderOf } from '../helper/folder.js'
import type { Teardown } from '../helper/teardown.js'
import { must } from './run.js'

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** The working tree as a fresh clone has it: nothing built, but its dependencies installed. */
export async function clone(t: Teardown): Promise<string> {
  const folder = folderOf(t)
  const files = await must(root, 'git', [
    'ls-files',
    '-z',
    '--cached',
    '--others',
    '--exclude-standard',
    '.',
    ':!node_modules'
  ])
  for (const file of files.split('\0')) {
    if (file !== '' && existsSync(join(root, file))) cpSync(join(root, file), join(folder, file))
  }
  // Links to each package, not to their folder, so that an install in the clone replaces the links alone.
  const packages = readdirSync(join(root, 'node_modules'))
  link(folder, packages)
  cpSync(join(root, 'node_modules/.package-lock.json'), join(folder, 'node_modules/.package-lock.json'), {
    force: true
  })
  return folder
}

/** Puts packages of the repository into a project. */
export function link(project: string, packages: readonly string[]): void {
  for (const name of packages) {
    if (name === '.package-lock.json') continue
    const path = join(project, 'node_modules', name)
    mkdirSync(dirname(path), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), path)
  }
}
