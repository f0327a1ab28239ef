import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { build } from 'esbuild'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import t, { type Test } from 'tap'
import { startRedis } from '../helper/redis.js'
import { root } from './clone.js'
import { install } from './installed.js'
import { type Fetched, nodeOf } from './registry.js'
import { must, run } from './run.js'

// A build, a compiler and a download take their time on a busy machine.
t.setTimeout(300_000)

const PHONE = '13800138000'
const IMPORT = /(?:\bfrom|\bimport|\bmodule|\bimport\() ?'([^']+)'/g
// Downloads of other versions of Node and the build wait for different things, so they run at once.
const majors = [22, 24, 26]
const [{ tarball, project, folder }, ...nodes] = await Promise.all([
  install(t),
  ...majors.map(major => nodeOf(t, major))
])
const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter(entry => entry.isFile())
  .map(entry => join(entry.parentPath, entry.name).slice(folder.length + 1))
const packed = (name: string) => readFileSync(join(folder, name), 'utf8')

/** Runs the compiler on the consumer. */
const compile = (...args: string[]) => {
  const tsc = join(root, 'node_modules/typescript/lib/tsc.js')
  return run(project, process.execPath, [tsc, '--checkers', '1', ...args])
}

t.test('the tarball has the plugin, its scripts and its documents, and nothing else', async t => {
  const other = files.filter(name => !/^dist\/plugin\/.+\.(js|d\.ts)$|^docs\//.test(name)).sort()
  t.same(other, ['CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'README.md', 'lua/README.md', 'package.json'])
  const links = [...packed('README.md').matchAll(/\]\((?!https?:)([^)#]+)/g)]
  t.ok(links.length > 9)
  for (const [, page = ''] of links) t.ok(files.includes(page), `README.md leads to ${page}`)
  const { textOf } = await import(join(folder, 'dist/plugin/store/lua.js'))
  const scripts = readdirSync(join(root, 'lua')).filter(name => name.endsWith('.lua'))
  for (const name of scripts)
    t.equal(textOf(name.slice(0, -4)), readFileSync(join(root, 'lua', name), 'utf8'), name)
  t.ok(files.includes('dist/plugin/index.js'))
  t.ok(files.includes('dist/plugin/index.d.ts'))
})

t.test('what the tarball imports is in it, comes with Node, or is named in package.json', async t => {
  const always = ['fastify', ...Object.keys(manifest.dependencies)]
  const typed = [...always, ...Object.keys(manifest.peerDependencies)]
  const imports = files.flatMap(file => {
    const found = /\.(js|d\.ts)$/.test(file) ? packed(file).matchAll(IMPORT) : []
    return [...found].map(([, to = '']) => ({ file, to }))
  })
  const lost = imports.filter(({ file, to }) => {
    if (to.startsWith('.')) return !files.includes(join(dirname(file), to))
    const named = file.endsWith('.js') ? always : typed
    return !to.startsWith('node:') && !named.some(name => `${to}/`.startsWith(`${name}/`))
  })
  t.ok(imports.some(({ file, to }) => file.endsWith('.d.ts') && to === 'fastify'))
  t.same(lost, [])
})

t.test('publint finds nothing wrong with the package', async t => {
  const { messages } = await publint({ pkgDir: folder, pack: false, strict: true })
  t.same(
    messages.map(message => formatMessage(message, manifest, { color: false })),
    []
  )
})

t.test('attw finds the types wherever ESM is read', async t => {
  const { bin } = createRequire(import.meta.url)('@arethetypeswrong/cli/package.json')
  const attw = join(root, 'node_modules/@arethetypeswrong/cli', bin.attw)
  const { status, stdout, stderr } = await run(project, process.execPath, [
    attw,
    tarball,
    '--profile',
    'esm-only'
  ])
  t.equal(status, 0, 'attw', { output: stdout + stderr })
})

t.test('a strict consumer compiles: no cast where it is right, an error at each mistake', async t => {
  cpSync(join(root, 'test/fixtures/consumer'), project, { recursive: true })
  const { status, stdout } = await compile()
  t.equal(status, 0, 'tsc', { output: stdout })
})

t.test('the types are right for a consumer whose bundler resolves the modules', async t => {
  const { status, stdout } = await compile('--project', 'tsconfig.bundler.json')
  t.equal(status, 0, 'tsc', { output: stdout })
})

/** Runs a compiled consumer: one phone sends twice. */
async function sends(node: string, file: string, env: NodeJS.ProcessEnv = {}) {
  const { stdout, stderr, status } = await run(project, node, [file], { PHONE, ...env })
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

const once = {
  answers: [
    { status: 202, waits: false, body: { left: 0 } },
    { status: 429, waits: true, body: { code: 'FST_SEND_LIMIT_EXCEEDED', 'violated-policies': ['mobile'] } }
  ],
  allowed: false
}

async function works(t: Test, node: string, version: RegExp): Promise<void> {
  const expected = { ...once, node: version }
  t.match(await sends(node, 'imported.js'), expected, 'imported')
  t.match(await sends(node, 'required.cjs'), expected, 'required')
  const redis = await startRedis(t)
  const env = { REDIS_URL: redis.url }
  t.match(await sends(node, 'imported.js', env), expected, 'on Redis')
  t.ok((await redis.client.keys('sl:*')).length > 0)
  const { answers } = await sends(node, 'imported.js', env)
  t.match(answers, [{ status: 429 }, { status: 429 }], 'the next process finds the count in this Redis')
}

t.test('the package runs on this Node, imported, required and on Redis', t =>
  works(t, process.execPath, /^v\d/)
)

t.test('the package runs where tsx turns an app and its imports into CommonJS', async t => {
  const tsx = createRequire(import.meta.url).resolve('tsx/cli')
  const app = join(project, 'commonjs')
  mkdirSync(app)
  writeFileSync(join(app, 'package.json'), '{}')
  cpSync(join(root, 'test/fixtures/consumer/required.cts'), join(app, 'app.ts'))
  const { stdout, stderr, status } = await run(app, process.execPath, [tsx, 'app.ts'], { PHONE })
  t.equal(status, 0, 'tsx', { output: stderr })
  t.match(JSON.parse(stdout), once)
})

t.test('the package runs where TypeScript itself turns an app into CommonJS', async t => {
  const app = join(project, 'compiled')
  mkdirSync(app)
  const compilerOptions = {
    module: 'commonjs',
    moduleResolution: 'bundler',
    target: 'es2023',
    strict: true,
    types: ['node']
  }
  writeFileSync(join(app, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
  writeFileSync(join(app, 'package.json'), '{}')
  cpSync(join(root, 'test/fixtures/consumer/required.cts'), join(app, 'app.ts'))
  const { status, stdout } = await compile('--project', 'compiled', '--skipLibCheck')
  t.equal(status, 0, 'tsc', { output: stdout })
  t.match(await sends(process.execPath, 'compiled/app.js'), once)
})

t.test('an app can be bundled with the package, as a module and as CommonJS', async t => {
  // Some dependencies are CommonJS and need a `require`, which a module does not have.
  const banner = {
    js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)"
  }
  const options = { bundle: true, platform: 'node' as const, external: ['fastify', '@fastify/redis'] }
  const at = (name: string) => join(project, name)
  await Promise.all([
    build({ ...options, format: 'esm', banner, entryPoints: [at('imported.js')], outfile: at('bundled.js') }),
    build({ ...options, format: 'cjs', entryPoints: [at('required.cjs')], outfile: at('bundled.cjs') }),
    build({
      ...options,
      external: ['@fastify/redis'],
      minify: true,
      format: 'cjs',
      entryPoints: [at('required.cjs')],
      outfile: at('minified.cjs')
    })
  ])
  const redis = await startRedis(t)
  t.match(await sends(process.execPath, 'bundled.js', { REDIS_URL: redis.url }), once, 'on Redis')
  t.match(await sends(process.execPath, 'bundled.cjs'), once, 'in memory')
  t.match(await sends(process.execPath, 'minified.cjs'), once, 'with Fastify, minified')
})

// pnpm copies a version where packages of a workspace have other peers, and a bundler copies it into each bundle.
t.test('of two copies in one process each limits its own scope', async t => {
  cpSync(folder, join(project, 'node_modules/another-copy'), { recursive: true })
  const script = `import Fastify from 'fastify'
const early = Fastify()
const names = ['fastify-send-limit', './node_modules/another-copy/dist/plugin/index.js']
const copies = await Promise.all(names.map(name => import(name)))
const limit = { name: 'one', key: 'ip', limits: [{ max: 1, window: '60s' }] }
const answers = []
for (const app of [early, Fastify()]) {
  for (const [i, copy] of copies.entries())
    app.register(async scope => {
      await scope.register(copy.limitPlugin)
      scope.get('/' + i, { config: { limit } }, async () => 'sent')
    })
  for (const url of ['/0', '/0', '/1', '/1']) answers.push((await app.inject(url)).statusCode)
}
console.log(JSON.stringify(answers))`
  writeFileSync(join(project, 'two-copies.mjs'), script)
  const printed = await must(project, process.execPath, ['two-copies.mjs'])
  t.same(JSON.parse(printed), [200, 429, 200, 429, 200, 429, 200, 429])
})

for (const [i, major] of majors.entries()) {
  const { value: node, missing } = nodes[i] as Fetched<string>
  t.test(
    `the package runs on Node ${major}, imported, required and on Redis`,
    { skip: missing ?? false },
    t => works(t, node as string, new RegExp(`^v${major}\\.`))
  )
}
