import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** Ends the process with one sentence. */
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

function works(command, args, input = '') {
  return spawnSync(command, args, { input, stdio: ['pipe', 'ignore', 'ignore'] }).status === 0
}

const tools = [
  {
    name: 'redis-server',
    packages: ['redis-server'],
    present: () => works('redis-server', ['--version'])
  },
  {
    name: 'a C compiler (cc) with the C library headers',
    packages: ['gcc', 'libc6-dev'],
    present: () => works('cc', ['-fsyntax-only', '-xc', '-'], '#include <sys/mman.h>\n')
  }
]

/**
 * Without these, tests are skipped: of pages in a browser, which Debian alone has; of the deployment, of its logs; of the
 * scripts of the runbook.
 */
const optional = [
  {
    packages: ['chromium-headless-shell'],
    present: () => works('chromium-headless-shell', ['--version'])
  },
  {
    packages: ['nginx', 'curl', 'openssl', 'procps'],
    present: () =>
      works('nginx', ['-v']) &&
      works('curl', ['--version']) &&
      works('openssl', ['version']) &&
      works('pgrep', ['--version'])
  },
  {
    packages: ['logrotate'],
    present: () => works('logrotate', ['--version'])
  },
  {
    packages: ['curl', 'jq'],
    present: () => works('curl', ['--version']) && works('jq', ['--version'])
  }
]

const aptOptions = {
  stdio: ['ignore', 'ignore', 'inherit'],
  env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
}

function aptInstall(packages) {
  console.log(`Installing ${packages.join(', ')} (apt-get).`)
  spawnSync('apt-get', ['install', '-qq', '-y', '--no-install-recommends', ...packages], aptOptions)
}

/** Installs what the tests start besides Node: a Redis server, a compiler for its test clock, and what is optional. */
export function installTestTools() {
  const missing = tools.filter(tool => !tool.present())
  const desired = optional.filter(tool => !tool.present())
  if (missing.length === 0 && desired.length === 0) return
  const names = missing.map(tool => tool.name).join(' and ')
  const debian = missing.flatMap(tool => tool.packages)
  const sentence = `The tests need ${names}: please install it (Debian, Ubuntu: apt-get install ${debian.join(' ')}).`
  if (process.getuid?.() !== 0 || !works('apt-get', ['--version'])) {
    if (missing.length > 0) stop(sentence)
    return
  }
  spawnSync('apt-get', ['update', '-qq'], aptOptions)
  if (missing.length > 0) aptInstall(debian)
  if (!tools.every(tool => tool.present())) stop(`apt-get did not bring it. ${sentence}`)
  // Each by itself: where one is unknown, nothing beside it would be installed.
  for (const tool of desired) aptInstall(tool.packages)
}
