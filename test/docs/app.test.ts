import t from 'tap'
import { ACCOUNT_DEFAULTS } from '../../app/accounts/account.js'
import { build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'
import { ConfigSchema } from '../../app/config-schema.js'
import { FACTS } from '../../app/facts.js'
import { loadPolicy } from '../../app/policy.js'
import type { Limit } from '../../plugin/index.js'
import { type Block, blocksOf, read } from './blocks.js'

const page = read('docs/app.md')
const policyPage = read('docs/policy.md')

function open(env: NodeJS.ProcessEnv) {
  let now = Date.UTC(2026, 2, 1)
  const clock = { monotonic: () => now, wall: () => now }
  const app = build(readConfig({ LOG_LEVEL: 'silent', ...env }), { clock })
  return { app, wait: (seconds: number) => void (now += seconds * 1_000) }
}

/** The variables before `npm start`. */
function environment(command: string): NodeJS.ProcessEnv {
  return Object.fromEntries([...command.matchAll(/([A-Z_]+)=(\S+)/g)].map(([, name, value]) => [name, value]))
}

/** The request of `curl -s -X METHOD URL -H 'name: value' -d 'body'`. */
function requestOf(command: string) {
  const [, method, url = '', rest = ''] =
    /^curl -s(?: -X (\w+))? http:\/\/127\.0\.0\.1:3000(\S+)(.*)\n$/.exec(command) ?? []
  const quoted = (flag: string) =>
    [...rest.matchAll(new RegExp(` ${flag} '([^']*)'`, 'g'))].map(match => match[1] ?? '')
  const headers = Object.fromEntries(quoted('-H').map(header => header.split(': ') as [string, string]))
  const [payload] = quoted('-d')
  const sent = {
    method: (method ?? (payload === undefined ? 'GET' : 'POST')) as 'GET' | 'POST',
    url,
    headers
  }
  return payload === undefined ? sent : { ...sent, payload }
}

/** The shown answer, with each `…` replaced by what came. */
function asShown(shown: unknown, came: unknown): unknown {
  if (shown === '…') return came
  if (typeof shown !== 'object' || shown === null) return shown
  const other = came as Record<string, unknown>
  if (Array.isArray(shown)) return shown.map((each, i) => asShown(each, other[i]))
  return Object.fromEntries(Object.entries(shown).map(([name, value]) => [name, asShown(value, other[name])]))
}

t.test('the walk through the API on the page gives the answers that it shows', async t => {
  const blocks = blocksOf('docs/app.md')
  const start = blocks.find(block => block.use === 'start')
  const { app: building, wait } = open(environment(start?.text ?? ''))
  const app = await building
  t.teardown(() => app.close())
  const code = () => /^\d+/.exec(app.outbox?.messages[0]?.text ?? '')?.[0] ?? ''
  let id = ''
  let steps = 0
  for (const [i, step] of blocks.entries()) {
    if (step.use === 'wait') wait(Number(/^sleep (\d+)\n$/.exec(step.text)?.[1]))
    if (step.use !== 'curl') continue
    const shown = blocks[i + 1] as Block
    const command = step.text.replace(/\bID\b/, id).replace('"CODE"', `"${code()}"`)
    const reply = await app.inject(requestOf(command))
    const answer = reply.json() as { id?: string }
    t.equal(String(reply.statusCode), shown.needs[0], `${step.at}: ${reply.body}`)
    t.same(answer, asShown(JSON.parse(shown.text), answer), shown.at)
    id ||= answer.id ?? ''
    steps++
  }
  t.ok(steps > 10)
})

t.test('the page on policies names what rules may be keyed by, and nothing else', async t => {
  const [, named = ''] = /\nA rule is keyed by ([\s\S]+?)\n\nAny other/.exec(policyPage) ?? []
  t.same([...named.matchAll(/`(request\.[\w.]+)`/g)].map(([, path]) => path).sort(), FACTS)
})

t.test('the pages name every endpoint, and no other', async t => {
  const app = await open({ ADMIN_KEY: 'the key of the operator of these tests' }).app
  t.teardown(() => app.close())
  await app.ready()
  const { paths = {} } = app.swagger() as { paths?: Record<string, object> }
  const there = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path.replace(/{(\w+)}/g, ':$1')}`)
  )
  const named = [
    ...`${page}${policyPage}${read('docs/operation.md')}`.matchAll(/`((?:GET|POST|DELETE) \/[^`?…]*)[^`]*`/g)
  ]
  t.same(
    [...new Set(named.map(([, text = '']) => text).filter(text => !text.endsWith('/')))].sort(),
    there.map(each => each.replace(/(.)\/$/, '$1')).sort()
  )
})

t.test('the pages name every environment variable, and the page of the API its default', async t => {
  const rows = [...page.matchAll(/^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \| ([^|]*) \|/gm)]
  const named = rows.flatMap(([, names = '', defaults = '']) =>
    [...names.matchAll(/[A-Z_]+/g)].map(([name], i) => [name, defaults.split(', ')[i] ?? ''] as const)
  )
  for (const [name, shown] of named) {
    const property = ConfigSchema.properties[name as keyof typeof ConfigSchema.properties]
    const { default: value } = property as { default?: unknown }
    if (value !== undefined) t.match(shown, `\`${value}\``, name)
  }
  const senders = read('docs/senders.md')
  const here = new Set(named.map(([name]) => name))
  for (const name of Object.keys(ConfigSchema.properties)) {
    t.ok(here.has(name) || senders.includes(`| \`${name}\` |`), name)
  }
})

t.test('the page names every rule of the policy', async t => {
  for (const { name } of loadPolicy().rules) t.match(policyPage, `\`${name}\``, name)
})

t.test('the page names the numbers of each rule of the policy', async t => {
  const periods: Record<string, string> = { '60s': 'minute', '1h': 'hour', '24h': 'day' }
  const numbers = new Map(
    loadPolicy().rules.map(({ name, limits = [] }) => {
      const most = ({ max, ceiling }: Limit) =>
        name === 'account' ? ACCOUNT_DEFAULTS.dailyQuota : (ceiling ?? max)
      return [name, limits.map(limit => `${most(limit)} a ${limit.per ?? periods[String(limit.window)]}`)]
    })
  )
  const rows = [...policyPage.matchAll(/^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| [^|]+ \| (.+) \|$/gm)]
  for (const [, names = '', text = ''] of rows) {
    const words = text.replaceAll('60 s', 'minute').replaceAll('24 h', 'day')
    let period: string | undefined
    const shown = [...words.matchAll(/(?<!\w)([\d,]*\d)(\D*)/g)].map(([, most = '', rest = '']) => {
      period = /minute|hour|day/.exec(rest)?.[0] ?? period
      return `${most.replaceAll(',', '')} a ${period}`
    })
    t.same(
      shown,
      [...names.matchAll(/[a-z-]+/g)].flatMap(([name]) => numbers.get(name) ?? []),
      names
    )
    for (const [name] of names.matchAll(/[a-z-]+/g)) numbers.delete(name)
  }
  t.same([...numbers.keys()], [], 'each rule has its row')
})
