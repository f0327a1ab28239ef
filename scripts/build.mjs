import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, parse } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installDependencies, root } from './install.mjs'

const dist = join(root, 'dist')
const sources = ['plugin', 'app', 'lua', 'tsconfig.json', 'tsconfig.build.json', 'package-lock.json']

/** Runs the compiler. @returns whether it found nothing wrong */
export function compile(project, outDir, flags = []) {
  // Not bin/tsc: without an extension a runner of tests that hooks into Node takes it for CommonJS.
  const tsc = join(root, 'node_modules/typescript/lib/tsc.js')
  const { status } = spawnSync(process.execPath, [tsc, '--project', project, '--outDir', outDir, ...flags], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit']
  })
  return status === 0
}

/** What belongs to the compiled code: the texts of the scripts, in place of what reads them, and the files of the app. */
export function copyData(outDir) {
  const lua = readdirSync(join(root, 'lua')).filter(file => file.endsWith('.lua'))
  const texts = lua.map(file => [parse(file).name, readFileSync(join(root, 'lua', file), 'utf8')])
  const module = `const texts = ${JSON.stringify(Object.fromEntries(texts), null, 2)}\nexport const textOf = name => texts[name]\n`
  writeFileSync(join(outDir, 'plugin/store/lua.js'), module)
  const data = path => !path.endsWith('.ts')
  cpSync(join(root, 'app'), join(outDir, 'app'), { recursive: true, filter: data })
}

/** Whether it is what a build that was killed has left: a folder named for a process that is no more. */
function isLeft(name) {
  const [, pid] = /^dist-build-(\d+)$/.exec(name) ?? []
  try {
    return pid !== undefined && !process.kill(Number(pid), 0)
  } catch (error) {
    return error.code === 'ESRCH'
  }
}

/** Compiles plugin/ and app/ to dist/ and copies what they read. A build that fails leaves the old dist/. */
export function build(flags = []) {
  const fresh = `${dist}-build-${process.pid}`
  // In a container a number comes back.
  const left = [
    fresh,
    ...readdirSync(root)
      .filter(isLeft)
      .map(name => join(root, name))
  ]
  for (const folder of left) rmSync(folder, { recursive: true, force: true })
  try {
    if (!compile('tsconfig.build.json', fresh, flags)) return false
    copyData(fresh)
    rmSync(dist, { recursive: true, force: true })
    renameSync(fresh, dist)
    return true
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

function newest(path) {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return 0
  if (!found.isDirectory()) return found.mtimeMs
  // A directory's own time tells of files that were removed.
  return Math.max(found.mtimeMs, ...readdirSync(path).map(name => newest(join(path, name))))
}

/** Builds what a server needs when dist/ is missing or a source has changed since. Types are for `npm test` to check. */
export function buildIfNeeded() {
  const built = statSync(join(dist, 'plugin/index.js'), { throwIfNoEntry: false })?.mtimeMs ?? 0
  if (sources.every(name => newest(join(root, name)) < built)) return true
  console.log('Building dist/ (tsc).')
  return build(['--noCheck', '--declaration', 'false'])
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  installDependencies()
  process.exitCode = build() ? 0 : 1
}
