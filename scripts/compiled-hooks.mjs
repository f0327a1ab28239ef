import { readFile } from 'node:fs/promises'

/** Packages of hundreds of modules, each of which would go through these hooks: `npm test` makes one of each. */
export const bundled = [
  'typebox',
  'typebox/schema',
  'typebox/value',
  'libphonenumber-js/core',
  'libphonenumber-js/max',
  'tap'
]

/** Where they are in dist-test/: what is in a folder of this name tap leaves out of stacks. */
export const PACKAGES = 'node_modules/@tapjs'

const root = new URL('../', import.meta.url).href
const compiled = new URL('../dist-test/', import.meta.url)

/** Whether it is of this repository, not of a package. */
const ours = url => url?.startsWith(root) && !url.includes('/node_modules/')

/** In TypeScript an import names what will be compiled: `./a.js` is `./a.ts`. */
export async function resolve(specifier, context, next) {
  if (bundled.includes(specifier))
    return {
      url: new URL(`${PACKAGES}/${specifier}.js`, compiled).href,
      format: 'module',
      shortCircuit: true
    }
  if (!ours(context.parentURL) || !/^\.{1,2}\/.*\.js$/.test(specifier)) return next(specifier, context)
  try {
    return await next(`${specifier.slice(0, -3)}.ts`, context)
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
    return next(specifier, context)
  }
}

/** A module keeps its name, so what stands beside it is found. What is not compiled is left to others. */
export async function load(url, context, next) {
  if (!ours(url) || !/\.ts(\?|$)/.test(url)) return next(url, context)
  const [path] = url.slice(root.length).split('?')
  try {
    const source = await readFile(new URL(`${path.slice(0, -3)}.js`, compiled), 'utf8')
    return { format: 'module', source, shortCircuit: true }
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
    return next(url, context)
  }
}
