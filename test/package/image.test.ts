import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
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
      NODE_ENV: 'production',
      PORT: '0',
      LOG_LEVEL: 'silent',
      AUDIT_LOG: 'off',
      REDIS_URL: redis.url,
      LIMIT_SECRET: 'a secret of these tests',
      API_KEYS: 'a-key-of-24-characters-or-more:shop',
      SMS_SENDERS: 'aliyun,tencent,twilio,webhook',
      MAIL_SENDERS: 'smtp',
      ALIYUN_ACCESS_KEY_ID: 'x',
      ALIYUN_ACCESS_KEY_SECRET: 'x',
      ALIYUN_SIGN_NAME: 'x',
      ALIYUN_TEMPLATES: 'captcha.zh=1',
      TENCENT_SECRET_ID: 'x',
      TENCENT_SECRET_KEY: 'x',
      TENCENT_SDK_APP_ID: 'x',
      TENCENT_SIGN_NAME: 'x',
      TENCENT_TEMPLATES: 'captcha.en=1',
      TWILIO_ACCOUNT_SID: 'AC1',
      TWILIO_AUTH_TOKEN: 'x',
      TWILIO_FROM: '+15005550006',
      WEBHOOK_URL: 'http://127.0.0.1:1',
      WEBHOOK_SECRET: `whsec_${'A'.repeat(32)}`,
      SMTP_URL: 'smtp://127.0.0.1:1',
      MAIL_FROM: 'a@example.com'
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
