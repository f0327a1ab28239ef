import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './install.mjs'

/** Where the compiled code of the tests goes. */
export const outdir = join(root, 'dist-test')

/** Packages with hundreds of modules, and what the repository imports of them. Bundled, they load faster. */
const bundled = {
  tap: ['tap'],
  typebox: ['typebox', 'typebox/schema', 'typebox/value'],
  'libphonenumber-js': ['libphonenumber-js/core', 'libphonenumber-js/max', 'libphonenumber-js/metadata.max']
}

/** Transpiles the repository, without a check of types: the compiler makes that while the tests run. */
export async function transpile() {
  // Imported here, since it may have to be installed first.
  const esbuild = await import('esbuild')
  await rm(outdir, { recursive: true, force: true })
  await Promise.all([transpileAll(esbuild), bundle(esbuild)])
}

/**
 * Removes the types from all TypeScript of the repository. `import.meta.url` stays that of the source, so that a module
 * finds the files beside it.
 */
async function transpileAll({ transform }) {
  const tsconfigRaw = await readFile(join(root, 'tsconfig.json'), 'utf8')
  const { include } = JSON.parse(tsconfigRaw)
  const write = async file => {
    const sourcefile = pathToFileURL(file).href
    const define = { 'import.meta.url': JSON.stringify(sourcefile) }
    const options = {
      loader: 'ts',
      sourcefile,
      sourcemap: 'inline',
      sourcesContent: false,
      tsconfigRaw,
      define
    }
    const { code } = await transform(await readFile(file, 'utf8'), options)
    const out = join(outdir, file.slice(root.length, -3))
    await mkdir(dirname(out), { recursive: true })
    await writeFile(`${out}.js`, code)
  }
  const folders = include.map(folder => readdir(join(root, folder), { recursive: true, withFileTypes: true }))
  const files = (await Promise.all(folders))
    .flat()
    .filter(entry => entry.isFile() && /(?<!\.d)\.ts$/.test(entry.name))
    .map(entry => join(entry.parentPath, entry.name))
  await Promise.all(files.map(write))
}

/** Bundles packages into a node_modules folder that the compiled code finds before the installed packages. */
async function bundle({ build }) {
  const packages = join(outdir, 'node_modules')
  // tap leaves a folder of this name out of stacks.
  const folder = join(packages, '@tapjs')
  const entryPoints = {}
  for (const [name, specifiers] of Object.entries(bundled)) {
    const exports = {}
    for (const specifier of specifiers) {
      const entry = `${specifier}/index`
      entryPoints[entry] = specifier
      exports[`.${specifier.slice(name.length)}`] = `.${entry.slice(name.length)}.js`
    }
    await mkdir(join(folder, name), { recursive: true })
    await writeFile(join(folder, name, 'package.json'), JSON.stringify({ type: 'module', exports }))
    await symlink(join('@tapjs', name), join(packages, name))
  }
  await build({
    entryPoints,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    logLevel: 'warning',
    alias: { 'async-hook-domain': join(root, 'scripts/tap-domain.mjs') },
    // Some parts of tap are CommonJS, and a module has no `require`.
    banner: {
      js: "import { createRequire as requireAt } from 'node:module'; const require = requireAt(import.meta.url)"
    },
    outdir: folder,
    chunkNames: 'chunks/[hash]'
  })
}
