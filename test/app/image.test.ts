import t from 'tap'
import { parse } from 'yaml'
import { readConfig } from '../../app/config.js'
import { ConfigSchema } from '../../app/config-schema.js'
import { read } from '../docs/blocks.js'

const dockerfile = read('Dockerfile')
const compose = read('compose.yaml')

/** The variables that the image and the compose file give the API. */
function environment(): NodeJS.ProcessEnv {
  const [, image = ''] = /^ENV (.*)$/m.exec(dockerfile) ?? []
  const [, service = ''] = /environment:\n((?: {6}.*\n)+)/.exec(compose) ?? []
  const own = [...image.matchAll(/([A-Z_]+)=(\S+)/g)].map(([, name, value]) => [name, value])
  const given = [...service.matchAll(/^ +([A-Z_]+):(?: (.*))?$/gm)].map(([, name, value = '']) => [
    name,
    value.replace(/^\$\{\w+:[-?](.*)\}$/, '$1')
  ])
  return Object.fromEntries([...own, ...given])
}

t.test('the compose file gives variables that are read, and they are enough to start', async t => {
  const env = environment()
  for (const name of Object.keys(env)) t.ok(name in ConfigSchema.properties, name)
  const secrets = { LIMIT_SECRET: 'a secret of these tests', API_KEYS: 'a-key-of-24-characters-or-more:shop' }
  t.match(readConfig({ ...env, ...secrets }), {
    NODE_ENV: 'production',
    HOST: '0.0.0.0',
    REDIS_URL: 'redis://redis:6379',
    AUDIT_LOG: 'stdout'
  })
})

t.test('the compose file leaves out no variable that an operator may set', async t => {
  // The image sets the first, in production the second cannot be on, and the file has one Redis of its own.
  const { NODE_ENV, DEV_OUTBOX, REDIS_SENTINEL, REDIS_SENTINEL_PASSWORD, REDIS_SHARDED, ...settable } =
    ConfigSchema.properties
  t.same(Object.keys(environment()).sort(), [...Object.keys(settable), 'NODE_ENV'].sort())
})

t.test('the Redis of the compose file evicts nothing, and keeps its data over a restart', async t => {
  t.match(compose, /"--maxmemory-policy", "noeviction", "--appendonly", "yes"/)
})

t.test('neither container of the compose file can gain rights, and the API has none', async t => {
  const { services } = parse(compose)
  for (const name of ['api', 'redis']) t.same(services[name].security_opt, ['no-new-privileges:true'], name)
  t.match(services.api, { read_only: true, cap_drop: ['ALL'], ulimits: { core: 0 } })
})

t.test('the image runs what the build makes, as the user node', async t => {
  t.match(dockerfile, /^CMD \["node", "dist\/app\/server.js"\]$/m)
  // By its number: Kubernetes does not start a pod with runAsNonRoot whose image names its user otherwise.
  t.match(dockerfile, /^USER 1000$/m)
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  t.match(dockerfile, `RUN npm run build`)
  t.ok(scripts.build)
})
