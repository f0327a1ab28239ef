import { execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { makeCertificate } from '../helper/certificate.js'
import { introduce, startCluster } from '../helper/cluster.js'
import { folderOf } from '../helper/folder.js'
import { logStream } from '../helper/log-stream.js'
import { scriptOf } from '../helper/module.js'
import { freePort, startRedis } from '../helper/redis.js'
import { until } from '../helper/until.js'
import { startApp } from './helper.js'

const run = promisify(execFile)
const LIMIT_SECRET = 'a secret of these tests'
const server = scriptOf('app/server.ts')
const openssl = await run('openssl', ['version']).then(
  () => true,
  () => false
)

t.test('the API is ready on a TLS cluster with host names', { skip: !openssl && 'no openssl' }, async t => {
  const { cert, key } = makeCertificate(folderOf(t), 'DNS:localhost')
  const start = async () => {
    const tlsPort = await freePort()
    const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert]
    const names = [
      '--cluster-announce-hostname',
      'localhost',
      '--cluster-preferred-endpoint-type',
      'hostname'
    ]
    const tls = ['--tls-port', `${tlsPort}`, '--tls-auth-clients', 'no', '--tls-cluster', 'yes']
    return { ...(await startRedis(t, { cluster: true, args: [...files, ...tls, ...names] })), tlsPort }
  }
  const nodes = await Promise.all([start(), start(), start()])
  await introduce(nodes)
  const port = await freePort()
  const child = spawn(process.execPath, [...process.execArgv, server], {
    env: {
      ...process.env,
      NODE_ENV: 'test',
      PORT: `${port}`,
      LIMIT_SECRET,
      LOG_LEVEL: 'fatal',
      NODE_EXTRA_CA_CERTS: cert,
      REDIS_URL: nodes.map(({ tlsPort }) => `rediss://localhost:${tlsPort}`).join()
    },
    stdio: 'ignore'
  })
  t.teardown(() => child.kill('SIGKILL'))
  const ready = () =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ ok }) => ok,
      () => false
    )
  await until(ready, 'an API that is ready', 30_000)
})

t.test('the log says why a node of a cluster cannot be used', async t => {
  const { nodes } = await startCluster(t)
  for (const { client } of nodes) await client.acl('SETUSER', 'api', 'on', '>right', '~*', '&*', '+@all')
  const { lines, stream } = logStream()
  const REDIS_URL = nodes.map(({ port }) => `redis://api:wrong@127.0.0.1:${port}`).join()
  await startApp(t, { LOG_LEVEL: 'warn', LIMIT_SECRET, REDIS_URL }, { logStream: stream })
  await until(() => /WRONGPASS/.test(lines.join('')), 'the reason')
  t.notMatch(lines.join(''), /wrong@|"wrong"/)
})
