import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './install.mjs'

/** Where what the tests run is written to. */
export const outdir = join(root, 'dist-test')

/** Packages of hundreds of modules, as what of each the repository imports: each is faster as few modules. */
const bundled = {
  tap: ['tap'],
  typebox: ['typebox', 'typebox/schema', 'typebox/value'],
  'libphonenumber-js': ['libphonenumber-js/core', 'libphonenumber-js/max', 'libphonenumber-js/metadata.max']
}

/** Errors of types are for the compiler to find, beside the tests. */
export async function transpile() {
  // Here, not above: it may have to be installed first.
  const esbuild = await import('esbuild')
  await rm(outdir, { recursive: true, force: true })
  await Promise.all([transpileAll(esbuild), bundle(esbuild)])
}

/** All TypeScript of the repository, its types taken out. By its URL a module still finds what stands beside its source. */
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

/** Packages where what is transpiled finds them before those that are installed. */
async function bundle({ build }) {
  const packages = join(outdir, 'node_modules')
  // What is in a folder of this name tap leaves out of stacks.
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
    // Some of what tap is made of is CommonJS, which a module has no `require` for.
    banner: {
      js: "import { createRequire as requireAt } from 'node:module'; const require = requireAt(import.meta.url)"
    },
    outdir: folder,
    chunkNames: 'chunks/[hash]'
  })
}
