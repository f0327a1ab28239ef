import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, parse } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installDependencies, root } from './install.mjs'

const dist = join(root, 'dist')
const sources = ['plugin', 'app', 'lua', 'tsconfig.json', 'tsconfig.build.json', 'package-lock.json']

/** Runs the compiler, with one checker, since several compute the same types. @returns whether it found no mistake */
export function compile(project, outDir, flags = []) {
  // Not bin/tsc: a test runner that hooks into Node takes a file without an extension for CommonJS.
  const tsc = join(root, 'node_modules/typescript/lib/tsc.js')
  const args = [tsc, '--project', project, '--outDir', outDir, '--checkers', '1', ...flags]
  const { status } = spawnSync(process.execPath, args, {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit']
  })
  return status === 0
}

/** Copies what the compiled code needs: a module with the texts of the Lua scripts, and the data files of the app. */
export function copyData(outDir) {
  const lua = readdirSync(join(root, 'lua')).filter(file => file.endsWith('.lua'))
  const texts = lua.map(file => [parse(file).name, readFileSync(join(root, 'lua', file), 'utf8')])
  const module = `const texts = ${JSON.stringify(Object.fromEntries(texts), null, 2)}\nexport const textOf = name => texts[name]\n`
  writeFileSync(join(outDir, 'plugin/store/lua.js'), module)
  const data = path => !path.endsWith('.ts')
  cpSync(join(root, 'app'), join(outDir, 'app'), { recursive: true, filter: data })
}

/** Whether a folder is left over from a build that was killed: it is named after a process that no longer runs. */
function isLeft(name) {
  const [, pid] = /^dist-build-(\d+)/.exec(name) ?? []
  try {
    return pid !== undefined && !process.kill(Number(pid), 0)
  } catch (error) {
    return error.code === 'ESRCH'
  }
}

/**
 * Compiles plugin/ and app/ to dist/ and copies what they read. A build that fails leaves the old dist/.
 * @param isDone whether another process has built dist/ meanwhile; then dist/ stays, since a server may read from it
 */
export function build(flags = [], isDone = () => false) {
  const fresh = `${dist}-build-${process.pid}`
  const former = `${fresh}-former`
  const own = [fresh, former]
  const left = readdirSync(root).filter(isLeft)
  // The own folders, too: in a container, process ids repeat.
  for (const folder of [...own, ...left.map(name => join(root, name))])
    rmSync(folder, { recursive: true, force: true })
  try {
    if (!compile('tsconfig.build.json', fresh, flags)) return false
    copyData(fresh)
    if (isDone()) return true
    try {
      // Renamed first, since removing it takes a while.
      renameSync(dist, former)
    } catch {
      // There is no dist/, or it is in a layer of an image, where folders cannot be renamed.
      rmSync(dist, { recursive: true, force: true })
    }
    renameSync(fresh, dist)
    return true
  } finally {
    for (const folder of own) rmSync(folder, { recursive: true, force: true })
  }
}

function newest(path) {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return 0
  if (!found.isDirectory()) return found.mtimeMs
  // The time of a folder changes when a file is removed from it.
  return Math.max(found.mtimeMs, ...readdirSync(path).map(name => newest(join(path, name))))
}

/** Whether dist/ exists and no source has changed since it was built. */
function isBuilt() {
  const built = statSync(join(dist, 'plugin/index.js'), { throwIfNoEntry: false })?.mtimeMs ?? 0
  return sources.every(name => newest(join(root, name)) < built)
}

/** Builds what a server needs, if it is missing or old. Types are not checked here; `npm test` does that. */
export function buildIfNeeded() {
  if (isBuilt()) return true
  console.log('Building dist/ (tsc).')
  return build(['--noCheck', '--declaration', 'false'], isBuilt)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  installDependencies()
  process.exitCode = build() ? 0 : 1
}
