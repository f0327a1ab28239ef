import { folderOf } from '../helper/folder.js'
import type { Teardown } from '../helper/teardown.js'
import { run } from './run.js'

/** Something that the npm registry gave, or why it could not be asked. */
export type Fetched<T> = { value: T; missing?: undefined } | { value?: undefined; missing: string }

const UNREACHABLE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENOTCACHED)\b/

/**
 * Runs an npm command that may need the registry.
 * @throws Error when it fails for another reason than that the registry cannot be reached
 */
export async function fetched(
  cwd: string,
  command: string,
  args: readonly string[],
  what: string
): Promise<Fetched<string>> {
  // One try: on a machine without a registry a test is skipped soon.
  const env = { npm_config_fetch_retries: '0', npm_config_prefer_offline: 'true' }
  const { status, stdout, stderr } = await run(cwd, command, args, env)
  if (status === 0) return { value: stdout.trim() }
  const [code] = UNREACHABLE.exec(stderr) ?? []
  if (code !== undefined)
    return { missing: `${what} is not at hand, and the npm registry cannot be reached (${code})` }
  throw new Error(`${what}: ${command} ended with ${status}:\n${stdout}${stderr}`)
}

/** The path of a Node of this major version; this machine's own, else the registry's newest. */
export async function nodeOf(t: Teardown, major: number): Promise<Fetched<string>> {
  if (process.version.startsWith(`v${major}.`)) return { value: process.execPath }
  const args = ['--yes', '--package', `node@${major}`, 'node', '--print', 'process.execPath']
  return fetched(folderOf(t), 'npx', args, `Node ${major}`)
}
