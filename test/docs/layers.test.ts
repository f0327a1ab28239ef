import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ImportDeclaration, Visitor, type VisitorObject } from 'oxc-parser'
import t from 'tap'
import { parse } from '../helper/parse.js'
import { blocksOf, root } from './blocks.js'

/**
 * The layers of the plugin, top to bottom: a file imports from its own layer or those below.
 * A new file takes its place here.
 */
const layers: readonly (readonly string[])[] = [
  ['index'],
  ['limit-transform'],
  ['planner', 'decorator', 'openapi', 'warnings', 'early-routes', 'filters'],
  ['route'],
  ['admission'],
  [
    'http',
    'hung-up',
    'handler-run',
    'connection',
    'watch',
    'events',
    'refusal-log',
    'filter-chain',
    'unnamed-proxy'
  ],
  ['limiter', 'headers', 'members'],
  ['decision', 'plan'],
  ['decision-basis', 'hold'],
  ['stages', 'subjects'],
  ['per-request', 'named'],
  ['rules'],
  ['rule-reading'],
  ['store/open', 'limits/compile', 'compiled-rule'],
  ['identity/key'],
  ['identity/compile', 'limits/from-request'],
  ['identity/content', 'identity/scalar'],
  ['store/examine'],
  ['store/refusal-cache', 'store/cluster'],
  ['store/fallback', 'store/nodes', 'store/redis', 'options'],
  ['store/substitute'],
  ['store/stand-in', 'store/carry-over', 'store/late-answer'],
  ['store/backlog'],
  ['store/memory', 'store/carried'],
  [
    'store/calls',
    'store/retry',
    'store/server',
    'store/known-refusals',
    'store/in-time',
    'store/client-errors'
  ],
  ['store/answer'],
  [
    'store/mixtures',
    'store/reading',
    'store/taken',
    'store/receipts',
    'store/journal',
    'store/groups',
    'store/reserver',
    'store/watched',
    'store/arena-cell',
    'store/blocks',
    'conform',
    'duration',
    'rule',
    'filter',
    'verdict',
    'identity/ip-list',
    'identity/path',
    'identity/part'
  ],
  ['store/known-entry', 'states', 'store/redis-errors'],
  ['limits/index', 'store/arena'],
  ['limits/log', 'limits/count', 'limits/lock', 'limits/distinct'],
  ['limits/pairs'],
  ['limits/kind'],
  ['mistakes'],
  ['store/scripts', 'store/key-index', 'store/queues', 'store/slabs', 'store/store', 'errors', 'key'],
  [
    'store/page',
    'store/records',
    'store/batch',
    'store/client',
    'store/outage',
    'store/lua',
    'store/half-sip-hash',
    'store/facts',
    'awaitable',
    'cohort',
    'cut-off',
    'waiting-answer',
    'foreign-schema',
    'root',
    'policy',
    'calendar',
    'clock',
    'within',
    'outcome',
    'schemas',
    'identity/digest',
    'identity/email',
    'identity/ip',
    'identity/phone'
  ],
  ['identity/mail-providers', 'identity/plain-number', 'identity/memoize'],
  ['identity/numbering-plan']
]

/** Types that a file may import from above its layer: options describe what is below them as well. */
const typesFromAbove = ['errors → verdict']

/** Which files may import a package, or only its types where it says so. */
const packages: Record<string, readonly string[]> = {
  fastify: [],
  'fastify (types)': [
    'index',
    'decorator',
    'http',
    'hung-up',
    'unnamed-proxy',
    'limit-transform',
    'openapi',
    'errors',
    'refusal-log',
    'route',
    'admission',
    'events',
    'handler-run',
    'connection',
    'watch',
    'cut-off',
    'waiting-answer',
    'filter-chain',
    'foreign-schema',
    'plan',
    'planner',
    'early-routes',
    'options',
    'key',
    'filter',
    'warnings',
    'store/open'
  ],
  'fastify-plugin': ['index'],
  '@fastify/error': ['errors'],
  ajv: ['conform'],
  'ajv (types)': ['schemas'],
  'temporal-polyfill': ['calendar'],
  'libphonenumber-js/core': ['identity/numbering-plan'],
  'libphonenumber-js/max': ['identity/phone'],
  'libphonenumber-js/metadata.max': ['identity/numbering-plan'],
  'libphonenumber-js (types)': ['identity/numbering-plan', 'identity/plain-number', 'identity/scalar']
}

/** All that a file may import of the plugin, where its layer allows too much. */
const only: Record<string, readonly string[]> = {
  verdict: ['store/facts', 'store/store', 'limits/index', 'states'],
  states: ['store/facts', 'store/store', 'limits/index'],
  'store/store': ['awaitable', 'calendar', 'store/facts'],
  'store/reading': ['store/facts', 'store/store', 'limits/index', 'limits/kind'],
  'store/memory': [
    'store/facts',
    'store/store',
    'clock',
    'store/reading',
    'store/taken',
    'store/arena',
    'store/arena-cell',
    'store/blocks',
    'limits/index',
    'limits/kind',
    'errors'
  ],
  'store/blocks': ['store/half-sip-hash', 'store/store'],
  'store/arena': ['store/key-index', 'store/queues', 'store/records', 'store/slabs'],
  'store/key-index': ['store/half-sip-hash', 'store/records'],
  'store/records': [],
  'store/redis': [
    'store/facts',
    'store/store',
    'store/answer',
    'store/calls',
    'store/client',
    'store/retry',
    'store/scripts',
    'store/mixtures',
    'limits/index'
  ],
  'store/calls': ['store/answer', 'store/batch', 'store/client', 'store/redis-errors', 'store/scripts'],
  'store/server': ['store/client', 'store/mixtures', 'store/redis-errors', 'store/scripts', 'errors'],
  'store/retry': ['store/redis-errors'],
  'store/batch': [],
  'store/answer': ['store/facts', 'store/store', 'store/reading', 'limits/index', 'limits/kind'],
  'store/mixtures': ['store/store', 'store/lua', 'store/scripts', 'limits/index'],
  'store/queues': ['store/records'],
  'store/slabs': ['store/page'],
  'store/page': [],
  'store/scripts': ['store/lua'],
  'store/lua': [],
  'store/cluster': [
    'awaitable',
    'store/facts',
    'store/store',
    'store/taken',
    'store/groups',
    'store/reserver'
  ],
  'store/groups': ['store/facts', 'store/store'],
  'store/nodes': ['store/client', 'store/outage', 'store/store'],
  'store/client-errors': ['store/client'],
  'store/receipts': ['errors', 'store/half-sip-hash', 'store/store'],
  'store/reserver': ['awaitable', 'store/facts', 'store/store'],
  'store/refusal-cache': [
    'limits/index',
    'store/facts',
    'store/store',
    'clock',
    'store/known-refusals',
    'store/reserver',
    'store/watched'
  ],
  'store/known-refusals': ['store/facts', 'store/store', 'store/reading', 'store/known-entry'],
  'store/watched': ['awaitable', 'store/store'],
  'store/known-entry': ['store/facts', 'store/store', 'limits/index'],
  'store/in-time': ['awaitable', 'errors', 'within', 'store/reserver', 'store/store'],
  'store/fallback': [
    'store/carry-over',
    'store/in-time',
    'store/substitute',
    'store/outage',
    'store/redis-errors',
    'store/reserver',
    'store/facts',
    'store/store',
    'store/taken',
    'store/stand-in',
    'errors'
  ],
  'store/substitute': [
    'limits/index',
    'store/carry-over',
    'store/redis-errors',
    'store/late-answer',
    'store/memory',
    'store/outage',
    'store/reserver',
    'store/facts',
    'store/store',
    'store/stand-in',
    'store/taken',
    'store/watched',
    'errors'
  ],
  'store/stand-in': [
    'limits/index',
    'store/facts',
    'store/store',
    'store/journal',
    'store/memory',
    'store/taken',
    'store/watched'
  ],
  'store/carry-over': [
    'store/backlog',
    'store/carried',
    'store/redis-errors',
    'store/in-time',
    'store/outage',
    'store/store',
    'store/watched'
  ],
  'store/backlog': ['store/carried', 'store/outage', 'store/store'],
  'store/carried': ['store/in-time', 'store/store'],
  'store/late-answer': ['store/facts', 'store/store', 'store/taken'],
  'store/redis-errors': [],
  'store/journal': ['store/store'],
  'limits/log': ['limits/kind', 'store/store'],
  'limits/count': ['limits/kind', 'store/store', 'calendar'],
  'limits/lock': ['limits/kind', 'store/store'],
  'limits/distinct': ['limits/kind', 'limits/pairs', 'store/store'],
  rules: [
    'compiled-rule',
    'conform',
    'duration',
    'identity/key',
    'identity/part',
    'limits/compile',
    'limits/from-request',
    'mistakes',
    'rule',
    'rule-reading'
  ]
}

interface Import {
  from: string
  to: string
  type: boolean
}

const folderOf = (part: string) => fileURLToPath(new URL(part, root))
const filesOf = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.ts'))
const folder = folderOf('plugin')
const files = filesOf(folder)
const names = files.map(file => file.slice(0, -3))

function visit(folder: string, file: string, visitor: VisitorObject): void {
  new Visitor(visitor).visit(parse(file, readFileSync(join(folder, file), 'utf8')))
}

/** Whether nothing of the module is there at run time. */
function typesOnly({ importKind, specifiers }: ImportDeclaration): boolean {
  if (importKind === 'type') return true
  const type = (each: (typeof specifiers)[number]) =>
    each.type === 'ImportSpecifier' && each.importKind === 'type'
  return specifiers.length > 0 && specifiers.every(type)
}

function importsOf(folder: string, file: string): Import[] {
  const found: Import[] = []
  const add = (text: string, type: boolean) => {
    const to = text.startsWith('.') ? normalize(join(dirname(file), text)).replace(/\.js$/, '') : text
    found.push({ from: file.slice(0, -3), to, type })
  }
  visit(folder, file, {
    ImportDeclaration: node => add(node.source.value, typesOnly(node)),
    ExportNamedDeclaration: node => node.source && add(node.source.value, node.exportKind === 'type'),
    ExportAllDeclaration: node => add(node.source.value, node.exportKind === 'type'),
    TSImportType: node => add(node.source.value, true),
    ImportExpression: ({ source }) =>
      add(source.type === 'Literal' ? String(source.value) : 'something computed', false)
  })
  return found
}

const imports = files.flatMap(file => importsOf(folder, file))
const inside = imports.filter(({ to }) => names.includes(to))
const outside = imports.filter(({ to }) => !names.includes(to) && !to.startsWith('node:'))
const show = ({ from, to }: Import) => `${from} → ${to}`

t.test('the reader of imports finds them', async t => {
  t.ok(inside.some(each => show(each) === 'index → limiter'))
  t.ok(outside.some(each => show(each) === 'index → fastify-plugin'))
})

t.test('every file is in one layer, and every file in a layer exists', async t => {
  t.same(
    layers.flat().sort(),
    [...names].sort(),
    'a new file takes its place in `layers`, above what it imports'
  )
})

t.test('the layers that docs/design.md draws are files or folders', async t => {
  const text = blocksOf('docs/design.md').map(block => block.text.replaceAll('.ts', ''))
  const drawn: readonly string[] = text.join().match(/[a-z-]+(?:\/[a-z]+)?/g) ?? []
  const parts = names.flatMap(name => [name, ...name.split('/')])
  t.ok(drawn.includes('admission'))
  t.same(drawn.filter(name => !parts.includes(name)).join(), '')
})

t.test('imports run downwards', async t => {
  const depth = new Map(layers.flatMap((layer, i) => layer.map(name => [name, i] as const)))
  // A file that has no layer yet is told above.
  const up = inside.filter(({ from, to }) => (depth.get(to) ?? Infinity) < (depth.get(from) ?? 0))
  t.same(up.filter(each => !each.type).map(show), [], 'no file imports from a layer above its own')
  t.same([...new Set(up.map(show))], typesFromAbove, 'nor types, except for `typesFromAbove`')
})

/** The circles that imports make, as far as they are met on the way from file to file. */
function circlesIn(imports: readonly Import[]): string[] {
  const done = new Set<string>()
  const follow = (name: string, path: readonly string[]): string[] => {
    if (path.includes(name)) return [[...path.slice(path.indexOf(name)), name].join(' → ')]
    if (done.has(name)) return []
    done.add(name)
    return imports.filter(({ from }) => from === name).flatMap(({ to }) => follow(to, [...path, name]))
  }
  return imports.flatMap(({ from }) => follow(from, []))
}

t.test('imports make no circle: in the plugin those of values, in the app those of types, too', async t => {
  t.same(circlesIn(inside.filter(({ type }) => !type)), [])
  const app = folderOf('app')
  const ofApp = filesOf(app).flatMap(file => importsOf(app, file))
  t.ok(ofApp.some(each => show(each) === 'config → config-schema'))
  t.same(circlesIn(ofApp), [])
})

t.test('packages are imported only by the files that may, and the app by none', async t => {
  for (const each of outside) {
    const allowed = [
      ...(packages[each.to] ?? []),
      ...(each.type ? (packages[`${each.to} (types)`] ?? []) : [])
    ]
    t.ok(allowed.includes(each.from), show(each))
  }
})

t.test('stores, rules and the decision import no more than they need', async t => {
  for (const [from, allowed] of Object.entries(only)) {
    const more = inside.filter(each => each.from === from && !allowed.includes(each.to))
    t.same(more.map(show), [], `${from} imports nothing but what \`only\` names for it`)
  }
})

t.test('the file of one kind of identity imports no other kind', async t => {
  const pieces = inside.filter(
    ({ from, to }) => /^identity\/(?:digest|email|ip|path|phone)$/.test(from) && /^identity\//.test(to)
  )
  const others = pieces.filter(({ to }) => to !== 'identity/memoize')
  t.same(others.map(show).sort(), [
    'identity/email → identity/mail-providers',
    'identity/phone → identity/plain-number'
  ])
})

t.test('only store/calls and store/server send Redis commands, and only store/lua reads lua/', async t => {
  const commands = /^(?:eval(?:sha)?(?:Buffer)?|script|defineCommand|multi|pipeline)$/
  for (const file of files) {
    const sends = new Set<string>()
    visit(folder, file, {
      CallExpression({ callee }) {
        if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier') return
        if (commands.test(callee.property.name)) sends.add(callee.property.name)
      }
    })
    if (!/^store\/(?:calls|server)\.ts$/.test(file)) t.same([...sends], [], `${file} sends no command`)
    if (file !== 'store/lua.ts')
      t.notMatch(readFileSync(join(folder, file), 'utf8'), /\.lua\b/, `${file} reads no script`)
  }
  t.same(
    inside
      .filter(({ to }) => to === 'store/scripts')
      .map(show)
      .sort(),
    ['calls', 'mixtures', 'redis', 'server'].map(from => `store/${from} → store/scripts`)
  )
  t.same(
    inside
      .filter(({ to }) => to === 'store/redis')
      .filter(each => !each.type)
      .map(show),
    ['store/open → store/redis']
  )
})
