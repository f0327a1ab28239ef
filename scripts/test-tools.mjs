// Installs the programs that the tests start: a Redis server, a compiler for its test clock, and optional ones. It is a
// process of its own, so that it runs while npm installs packages.
import { spawnSync } from 'node:child_process'
import { stop } from './install.mjs'

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
 * If one of these is missing, some tests are skipped: those of pages in a browser (of which only Debian has this
 * package), of the deployment, of HAProxy, of the logs, of the scripts of the runbook, and of the alerts.
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
    packages: ['haproxy', 'openssl'],
    present: () => works('haproxy', ['-v']) && works('openssl', ['version'])
  },
  {
    packages: ['logrotate'],
    present: () => works('logrotate', ['--version'])
  },
  {
    packages: ['curl', 'jq'],
    present: () => works('curl', ['--version']) && works('jq', ['--version'])
  },
  {
    packages: ['prometheus'],
    present: () => works('promtool', ['--version'])
  }
]

const aptOptions = {
  stdio: ['ignore', 'ignore', 'inherit'],
  env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
}

/** @returns whether all were installed: of several, apt-get installs none if it does not know one */
function aptInstall(packages) {
  console.log(`Installing ${packages.join(', ')} (apt-get).`)
  const args = ['install', '-qq', '-y', '--no-install-recommends', ...packages]
  return spawnSync('apt-get', args, aptOptions).status === 0
}

function installTestTools() {
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
  // At once takes half as long as one after another.
  const all = aptInstall([...missing, ...desired].flatMap(tool => tool.packages))
  if (!all && missing.length > 0) aptInstall(debian)
  if (!tools.every(tool => tool.present())) stop(`apt-get did not bring it. ${sentence}`)
  if (!all) for (const tool of desired) aptInstall(tool.packages)
}

installTestTools()
