import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'
import { folderOf } from '../helper/folder.js'
import { root } from './clone.js'
import { fetched } from './registry.js'
import { must, run } from './run.js'

// A download and a compiler take their time on a busy machine.
t.setTimeout(300_000)

// A project with a lock file of its own, as the generator needs a TypeScript that this repository does not have.
const project = folderOf(t)
cpSync(join(root, 'test/fixtures/client'), project, { recursive: true })
const ci = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
const { missing } = await fetched(project, 'npm', ci, 'The OpenAPI generator')
const bin = (name: string) => join(project, 'node_modules', name)
const API_KEY = 'key-of-the-client'

t.test('a typed client of the OpenAPI document compiles and works', { skip: missing ?? false }, async t => {
  const env = { NODE_ENV: 'test', LOG_LEVEL: 'silent', API_KEYS: `${API_KEY}:shop` }
  const app = await build(readConfig(env))
  t.teardown(() => app.close())
  const BASE_URL = await app.listen({ host: '127.0.0.1', port: 0 })
  const document = await (await fetch(`${BASE_URL}/openapi.json`)).text()
  writeFileSync(join(project, 'openapi.json'), document)

  await must(project, process.execPath, [
    bin('openapi-typescript/bin/cli.js'),
    'openapi.json',
    '--output',
    'schema.ts'
  ])
  const { status, stdout } = await run(project, process.execPath, [bin('typescript/lib/tsc.js')])
  t.equal(status, 0, 'compiles, and finds mistakes', { output: stdout })

  const calls = JSON.parse(await must(project, process.execPath, ['client.js'], { BASE_URL, API_KEY }))
  t.match(calls, {
    sent: { status: 202, waits: false },
    again: { status: 429, waits: true, code: 'FST_SEND_LIMIT_EXCEEDED' },
    wrong: { status: 422, code: 'CODE_WRONG' },
    right: { status: 200 },
    used: { status: 422, code: 'CODE_WRONG' },
    status: { status: 200 },
    ended: { status: 410, code: 'CAPTCHA_ENDED' },
    resent: { status: 429, waits: true, code: 'FST_SEND_LIMIT_EXCEEDED' },
    sms: { status: 202 },
    mail: { status: 202 },
    secondMail: { status: 429, waits: true, code: 'FST_SEND_LIMIT_EXCEEDED' },
    health: { status: 200 },
    ready: { status: 200 },
    metrics: { status: 200 },
    resendAt: /^\d{4}-\d\d-\d\dT/,
    verified: true
  })
})
