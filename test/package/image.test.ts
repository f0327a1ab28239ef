import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { credentials, production, smtp } from '../app/senders/servers.js'
import { startRedis } from '../helper/redis.js'
import { clone, link, root } from './clone.js'
import { must } from './run.js'

// A build takes its time on a busy machine.
t.setTimeout(300_000)

interface Locked {
  dev?: boolean
  link?: boolean
}

/** What `npm prune --omit=dev` leaves at the top. */
function kept(): string[] {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  return Object.entries<Locked>(packages)
    .filter(([path, { dev, link }]) => !dev && !link && path.lastIndexOf('node_modules/') === 0)
    .map(([path]) => path.slice('node_modules/'.length))
}

t.test('without tools, the app starts with every sender', async t => {
  const folder = await clone(t)
  await must(folder, 'npm', ['run', 'build'])
  rmSync(join(folder, 'node_modules'), { recursive: true })
  link(folder, kept())
  const redis = await startRedis(t)
  const child = spawn(process.execPath, ['dist/app/server.js'], {
    cwd: folder,
    env: {
      ...production,
      ...credentials,
      ...smtp,
      PORT: '0',
      LOG_LEVEL: 'silent',
      REDIS_URL: redis.url,
      LIMIT_SECRET: 'a secret of these tests',
      SMS_SENDERS: 'aliyun,tencent,twilio,webhook',
      MAIL_SENDERS: 'smtp'
    },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const ended = once(child, 'close')
  let said = ''
  child.stderr.on('data', chunk => (said += chunk))
  const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  const [, base] = /^Listening on (http:\/\/127\.0\.0\.1:\d+)$/.exec(value ?? '') ?? []
  t.ok(base, 'says where it listens', { said })
  for (const path of ['/readyz', '/docs/', '/metrics']) t.equal((await fetch(base + path)).status, 200, path)
  child.kill('SIGTERM')
  t.same(await ended, [0, null], 'ends well', { said })
})
