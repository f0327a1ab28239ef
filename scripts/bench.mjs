import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { compile, copyData } from './build.mjs'
import { installDependencies, root, stop } from './install.mjs'

const folder = join(root, 'bench')
const names = existsSync(folder) ? readdirSync(folder).filter(file => file.endsWith('.ts')) : []
const [name, ...args] = process.argv.slice(2)
if (!names.includes(`${name}.ts`)) {
  const known = names.map(file => file.slice(0, -3)).join(', ')
  stop(`Name a bench, as in "npm run bench -- memory". There are: ${known || 'none yet'}.`)
}

installDependencies()
// Compiled as it is published: a loader that transpiles at run time makes slower code.
const compiled = join(root, 'dist-bench')
if (!compile('tsconfig.bench.json', compiled)) stop('The benches do not compile; see above.')
copyData(compiled)
const child = spawn(process.execPath, ['--expose-gc', join(compiled, 'bench', `${name}.js`), ...args], {
  cwd: root,
  stdio: 'inherit'
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('exit', (code, signal) => {
  process.exitCode = signal === null ? code : 1
})
