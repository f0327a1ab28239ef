import t from 'tap'
import { build } from '../../app/app.js'
import { ConfigSchema, readConfig } from '../../app/config.js'
import { type Block, blocksOf, read } from './blocks.js'

const page = read('docs/app.md')
const open = () => build(readConfig({ LOG_LEVEL: 'silent' }))

/** The request of `curl -s URL -H 'name: value' -d 'body'`. */
function requestOf(command: string) {
  const [, url = '', rest = ''] = /^curl -s http:\/\/127\.0\.0\.1:3000(\S+)(.*)\n$/.exec(command) ?? []
  const quoted = (flag: string) =>
    [...rest.matchAll(new RegExp(` ${flag} '([^']*)'`, 'g'))].map(match => match[1] ?? '')
  const headers = Object.fromEntries(quoted('-H').map(header => header.split(': ') as [string, string]))
  const [payload] = quoted('-d')
  return payload === undefined ? { url, headers } : { method: 'POST' as const, url, headers, payload }
}

/** What the page leaves open is whatever came. */
function asShown(shown: unknown, came: unknown): unknown {
  if (shown === '…') return came
  if (typeof shown !== 'object' || shown === null) return shown
  const other = came as Record<string, unknown>
  if (Array.isArray(shown)) return shown.map((each, i) => asShown(each, other[i]))
  return Object.fromEntries(Object.entries(shown).map(([name, value]) => [name, asShown(value, other[name])]))
}

t.test('the walk', async t => {
  const app = await open()
  t.teardown(() => app.close())
  let id = ''
  let code = ''
  const blocks = blocksOf('docs/app.md')
  const steps = blocks.filter(block => block.use === 'curl')
  t.ok(steps.length > 3)
  for (const step of steps) {
    const shown = blocks[blocks.indexOf(step) + 1] as Block
    const command = step.text.replace('"ID"', `"${id}"`).replace('"CODE"', `"${code}"`)
    const reply = await app.inject(requestOf(command))
    const answer = reply.json() as { id?: string; messages?: { text: string }[] }
    t.equal(String(reply.statusCode), shown.needs[0], step.at)
    t.same(answer, asShown(JSON.parse(shown.text), answer), shown.at)
    id ||= answer.id ?? ''
    code ||= /^\d+/.exec(answer.messages?.[0]?.text ?? '')?.[0] ?? ''
  }
})

t.test('the page names every endpoint, and no other', async t => {
  const app = await open()
  t.teardown(() => app.close())
  await app.ready()
  const { paths = {} } = app.swagger() as { paths?: Record<string, object> }
  const there = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`)
  )
  const named = [...page.matchAll(/`((?:GET|POST) \/[^`]*)`/g)].map(([, text]) => text ?? '')
  t.same(named.sort(), there.map(each => each.replace(/(.)\/$/, '$1')).sort())
})

t.test('the page names every variable with its default', async t => {
  const rows = [...page.matchAll(/^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \| ([^|]*) \|/gm)]
  const named = rows.flatMap(([, names = '', defaults = '']) =>
    [...names.matchAll(/[A-Z_]+/g)].map(([name], i) => [name, defaults.split(', ')[i] ?? ''] as const)
  )
  t.same(named.map(([name]) => name).sort(), Object.keys(ConfigSchema.properties).sort())
  for (const [name, shown] of named) {
    const { default: value } = ConfigSchema.properties[name as keyof typeof ConfigSchema.properties] as {
      default?: unknown
    }
    if (value !== undefined) t.equal(shown, `\`${value}\``, name)
  }
})
