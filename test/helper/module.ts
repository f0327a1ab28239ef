import { fileURLToPath, pathToFileURL } from 'node:url'

const root = new URL('../../', import.meta.url)
/** The folder into which `npm test` has compiled the repository; not set when a file is run by itself. */
const { COMPILED } = process.env

/**
 * The module for a process that a test starts, which runs with the flags of the test (`process.execArgv`).
 * @param path path of a TypeScript file from the root, such as `app/server.ts`
 */
export function moduleOf(path: string): URL {
  return COMPILED ? new URL(path.replace(/\.ts$/, '.js'), pathToFileURL(`${COMPILED}/`)) : new URL(path, root)
}

/** The same as a path. */
export function scriptOf(path: string): string {
  return fileURLToPath(moduleOf(path))
}
