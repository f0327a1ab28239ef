import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundled, PACKAGES } from './compiled-hooks.mjs'
import { root } from './install.mjs'

const outdir = join(root, 'dist-test')

/**
 * Writes to dist-test/ what the tests run: all TypeScript of the repository, its types taken out, and the packages that
 * are faster as one module each. Errors of types are for the compiler to find, beside the tests.
 */
export async function transpile() {
  // Here, not above: it may have to be installed first.
  const { build, transform } = await import('esbuild')
  const tsconfigRaw = await readFile(join(root, 'tsconfig.json'), 'utf8')
  const { include } = JSON.parse(tsconfigRaw)
  await rm(outdir, { recursive: true, force: true })
  const write = async file => {
    const sourcefile = pathToFileURL(file).href
    const source = await readFile(file, 'utf8')
    const { code } = await transform(source, { loader: 'ts', sourcefile, sourcemap: 'inline', tsconfigRaw })
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
  await build({
    entryPoints: bundled,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    logLevel: 'warning',
    // Some of what tap is made of is CommonJS, which a module has no `require` for.
    banner: {
      js: "import { createRequire as requireAt } from 'node:module'; const require = requireAt(import.meta.url)"
    },
    outdir: join(outdir, PACKAGES),
    chunkNames: 'chunks/[hash]'
  })
}
