import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** Prints a sentence and ends the process. */
export function stop(sentence) {
  console.error(sentence)
  process.exit(1)
}

function packages(file) {
  try {
    return JSON.parse(readFileSync(`${root}/${file}`, 'utf8')).packages
  } catch (error) {
    if (error.code === 'ENOENT') return null
    throw error
  }
}

// npm writes node_modules/.package-lock.json last, so an install that broke off does not count.
// Versions are compared, not times: a checkout touches the lock file without changing it.
function upToDate() {
  const installed = packages('node_modules/.package-lock.json')
  if (installed === null) return false
  const wanted = packages('package-lock.json')
  return Object.entries(wanted).every(
    ([path, { version, optional }]) =>
      path === '' || installed[path]?.version === version || (optional && installed[path] === undefined)
  )
}

/** Runs `npm ci` when node_modules is missing or does not match the lock file. */
export function installDependencies() {
  if (upToDate()) return
  console.log('Installing the dependencies of package-lock.json (npm ci).')
  const flags = ['--include=dev', '--no-audit', '--no-fund', '--loglevel=error']
  const { status, error } = spawnSync('npm', ['ci', ...flags], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit']
  })
  if (status !== 0)
    stop(`The dependencies could not be installed: npm ci ${error?.message ?? `ended with ${status}`}.`)
}
