import { type ChildProcess, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { isAlone } from '../../app/facts.js'
import { loadPolicy } from '../../app/policy.js'
import type { Rule } from '../../plugin/index.js'
import { folderOf } from '../../test/helper/folder.js'
import type { Closing } from '../lib/closing.js'

export interface Server {
  url: string
  headers: Record<string, string>
}

/**
 * Whether a rule counts by the address alone. Such rules get limits that the bench does not reach, so that each is
 * decided but none refuses.
 */
const isByAddress = ({ key }: Rule) => isAlone(key, 'request.ip') || isAlone(key, 'request.endUserIp')
const START_LIMIT_MS = 30_000

/** The app as it is started, in a process of its own, sending through {@link startMailServer}. */
export async function startServer(closing: Closing, env: NodeJS.ProcessEnv): Promise<Server> {
  const folder = folderOf(closing)
  const write = (name: string, content: unknown) => {
    writeFileSync(join(folder, name), JSON.stringify(content))
    return join(folder, name)
  }
  const [key, adminKey, secret] = [24, 24, 32].map(bytes => randomBytes(bytes).toString('hex')) as [
    string,
    string,
    string
  ]
  const account = {
    id: 'bench',
    keys: [createHash('sha256').update(key).digest('hex')],
    dailyQuota: 10_000_000
  }
  const policy = loadPolicy()
  const rules = policy.rules.map(rule => {
    // A rule on distinct values takes no more than 100.
    const limits = [{ max: rule.distinct === undefined ? 1_000 : 100, window: '1s' }]
    return isByAddress(rule) ? { ...rule, limits } : rule
  })
  const url = await start(closing, '../../app/server.js', /^Listening on (\S+)/, {
    // Not production, where nothing would tell the address while the log is silent.
    NODE_ENV: 'test',
    HOST: '127.0.0.1',
    PORT: '0',
    LOG_LEVEL: 'silent',
    AUDIT_LOG: join(folder, 'audit.log'),
    LIMIT_SECRET: secret,
    ACCOUNTS_FILE: write('accounts.json', [account]),
    POLICY_FILE: write('policy.json', { ...policy, rules }),
    ADMIN_KEY: adminKey,
    MAIL_FROM: 'bench@example.com',
    SMTP_TLS: 'opportunistic',
    ...env
  })
  return { url, headers: { 'x-api-key': key, 'x-admin-key': adminKey, 'content-type': 'application/json' } }
}

/** @returns the URL of the mail server */
export async function startMailServer(closing: Closing): Promise<string> {
  return `smtp://127.0.0.1:${await start(closing, 'mail-server.js', /^(\d+)/, {})}`
}

async function start(
  closing: Closing,
  script: string,
  says: RegExp,
  env: NodeJS.ProcessEnv
): Promise<string> {
  const { PATH, HOME } = process.env
  const child = spawn(process.execPath, [fileURLToPath(new URL(script, import.meta.url))], {
    env: { PATH, HOME, ...env },
    stdio: ['pipe', 'pipe', 'inherit']
  })
  closing.teardown(() => stop(child))
  const deadline = setTimeout(() => child.kill('SIGKILL'), START_LIMIT_MS)
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const found = says.exec(line)?.[1]
      if (found !== undefined) return found
    }
  } finally {
    clearTimeout(deadline)
    child.stdout.resume()
  }
  throw new Error(`${script} did not start`)
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill()
  await ended
}
