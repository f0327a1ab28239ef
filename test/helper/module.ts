import { fileURLToPath, pathToFileURL } from 'node:url'

const root = new URL('../../', import.meta.url)
/** Where `npm test` has compiled the repository to; not set where a file is run by itself. */
const { COMPILED } = process.env

/**
 * What a process that a test starts runs or imports, with the flags that the test has (`process.execArgv`).
 * @param path of a file in TypeScript from the root, such as `app/server.ts`
 */
export function moduleOf(path: string): URL {
  return COMPILED ? new URL(path.replace(/\.ts$/, '.js'), pathToFileURL(`${COMPILED}/`)) : new URL(path, root)
}

/** The same as a path. */
export function scriptOf(path: string): string {
  return fileURLToPath(moduleOf(path))
}
