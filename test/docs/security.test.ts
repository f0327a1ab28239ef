import { existsSync } from 'node:fs'
import t from 'tap'
import { build } from '../../app/app.js'
import { readConfig } from '../../app/config.js'
import { ConfigSchema } from '../../app/config-schema.js'
import { loadPolicy } from '../../app/policy.js'
import { SEND_LIMITS } from '../../app/routes/v1/captcha/limits.js'
import { ask, E164, verify, wrong } from '../app/captcha.js'
import { lastCode, places } from '../app/helper.js'
import { read, root } from './blocks.js'

const page = read('docs/security.md')
const exists = (path: string) => existsSync(new URL(path, root))

/** The cells of each row of each table. */
const rows = page
  .split('\n')
  .filter(line => line.startsWith('| '))
  .map(line => line.split('|').slice(1, -1))
  .map(cells => cells.map(cell => cell.trim()))

/** Tests that a cell names: `[name](../file): *title*; *title*`. */
function testsIn(cell: string): { file: string; title: string }[] {
  const files = cell.matchAll(/\]\(\.\.\/(test\/[^)]+)\): (\*[^*]+\*(?:; \*[^*]+\*)*)/g)
  return [...files].flatMap(([, file = '', titles = '']) =>
    [...titles.matchAll(/\*([^*]+)\*/g)].map(([, title = '']) => ({ file, title }))
  )
}

/** What the titles of a file's tests match. */
function titlesOf(file: string): RegExp[] {
  const calls = read(file).matchAll(/\btest\(\s*(?:'([^'\n]+)'|"([^"\n]+)"|`([^`\n]+)`)/g)
  return [...calls].map(([, single, double, template]) => {
    const parts = template?.split(/\$\{[^}]*\}/) ?? [single ?? double ?? '']
    const literal = parts.map(part => part.replace(/[^\w\s]/g, '\\$&'))
    return new RegExp(`^${literal.join('.+')}$`)
  })
}

t.test('every test that the page names exists', async t => {
  const named = rows.flatMap(cells => cells.flatMap(testsIn))
  const links = page.match(/\]\(\.\.\/test\//g) ?? []
  t.ok(named.length > 30)
  t.equal(
    links.length,
    rows.flatMap(cells => cells.join().match(/\]\(\.\.\/test\/[^)]+\): \*/g) ?? []).length
  )
  for (const { file, title } of named) {
    t.ok(
      titlesOf(file).some(each => each.test(title)),
      `${file}: ${title}`
    )
  }
})

t.test('every requirement has a known state, and one that is met names a test', async t => {
  const judged = rows.filter(([, , here = '']) => here.startsWith('**'))
  t.ok(judged.length > 30)
  for (const [item = '', , here = '', , tests = ''] of judged) {
    const [, state] = /^\*\*([a-z ]+)\*\*/.exec(here) ?? []
    t.match(state, /^(met|partly met|not met|up to you)$/, item)
    if (/met/.test(state ?? '') && state !== 'not met') t.not(testsIn(tests).length, 0, item)
  }
})

t.test('every file, variable, rule and metric that the page names exists', async t => {
  const app = await build(readConfig({ NODE_ENV: 'test', LOG_LEVEL: 'silent' }))
  t.teardown(() => app.close())
  // Filters refuse, too, under their names.
  const rules = new Set([...loadPolicy().rules.map(({ name }) => name), ...SEND_LIMITS])
  for (const [, span = ''] of page.matchAll(/`([^`\n]+)`/g)) {
    if (/^(app|lua|plugin|test)\//.test(span)) t.ok(exists(span), span)
    const [, variable] = /^([A-Z]+_[A-Z_]+)(=|$)/.exec(span) ?? []
    if (variable !== undefined) t.ok(variable in ConfigSchema.properties, span)
    if (/_total$/.test(span)) t.ok(app.metrics.registry.getSingleMetric(span), span)
  }
  const named = rows.flatMap(cells => cells.filter(cell => /^rules? `|, rules? `| `rule` /.test(cell)))
  t.ok(named.length > 5)
  const spans = named.flatMap(cell =>
    [...cell.matchAll(/`([a-z]+(?:-[a-z]+)*)`/g)].map(([, name = '']) => name)
  )
  for (const name of spans) if (name !== 'rule') t.ok(rules.has(name), name)
})

t.test('whoever guesses codes and asks for new ones raises the alarm that the page names', async t => {
  const place = await places.memory(t)
  const app = await place.start()
  let sent: Awaited<ReturnType<typeof ask>>
  do {
    sent = await ask(app)
    for (let i = 0; i < 5; i++) await verify(app, sent.body.id ?? '', wrong(lastCode(app, E164)))
    place.advance(60_000)
  } while (sent.status === 202)
  const { values } = (await app.metrics.registry.getSingleMetric('limit_refusals_total')?.get()) ?? {}
  const refused = values?.map(({ labels }) => `${labels.rule}`) ?? []
  t.ok(refused.length > 0)
  const [alarm] = rows.find(cells => cells.includes('somebody guesses codes')) ?? []
  for (const rule of refused) t.match(alarm, `\`${rule}\``)
})
