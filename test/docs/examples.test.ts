import { execFile } from 'node:child_process'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import Fastify from 'fastify'
import t from 'tap'
import limitPlugin, { type Rule } from '../../plugin/index.js'
import { startRedis } from '../helper/redis.js'
import { blocksOf, pages, root } from './blocks.js'

const blocks = pages.flatMap(blocksOf)
const examples = blocks.filter(block => block.use === 'run')
const plugin = new URL('plugin/index.ts', root)
const node = promisify(execFile)

/** Each example as a file of its own, with the plugin's source in place of the package. */
const folder = t.testdir(
  Object.fromEntries(
    examples.map(({ at, text }) => [nameOf(at), text.replaceAll(`'fastify-send-limit'`, `'${plugin}'`)])
  )
)

function nameOf(at: string): string {
  const { language } = examples.find(each => each.at === at) ?? {}
  return `${at.replace(/\W/g, '-')}.${language === 'ts' ? 'ts' : 'mjs'}`
}

interface Run {
  file: string
  env: Record<string, string>
}

/** What each example prints; they run in one process, and time stands still in it. */
async function run(runs: readonly Run[]): Promise<string[]> {
  const args = ['--import', 'tsx', fileURLToPath(new URL('test/docs/run.mjs', root)), JSON.stringify(runs)]
  const { stdout, stderr } = await node(process.execPath, args, { cwd: fileURLToPath(root) })
  return [...(JSON.parse(stdout) as string[]).map(text => text + stderr)]
}

// The compiler and the process with every example take long on a busy machine.
t.setTimeout(110_000)

t.test('every block of code is tested', async t => {
  for (const { at, language, use } of blocks.filter(block =>
    ['js', 'ts', 'json', 'jsonc'].includes(block.language)
  )) {
    t.ok(
      ['run', 'rules', 'own-rule', 'answer', 'template', 'purposes'].includes(use),
      `${at}: a test runs this ${language}`
    )
  }
})

t.test('each example prints what its page says', async t => {
  const runs = await Promise.all(
    examples.map(
      async ({ at, needs }): Promise<Run> => ({
        file: pathToFileURL(`${folder}/${nameOf(at)}`).href,
        env: needs.includes('redis') ? { REDIS_URL: (await startRedis(t)).url } : {}
      })
    )
  )
  const alone = examples.map(({ needs }) => needs.includes('alone'))
  const together = await run(runs.filter((_, i) => !alone[i]))
  for (const [i, example] of examples.entries()) {
    const printed = alone[i] ? (await run([runs[i] as Run]))[0] : together.shift()
    const shown = blocks[blocks.indexOf(example) + 1]
    t.match(shown, { page: example.page, use: 'output' }, `${example.at}: its output follows it`)
    t.equal(printed, shown?.text, example.at)
  }
})

t.test('each block of rules can be registered', async t => {
  for (const { at, text } of blocks.filter(block => block.use === 'rules')) {
    const rules = JSON.parse(text) as Rule[]
    const app = Fastify()
    t.teardown(() => app.close())
    await app.register(limitPlugin, { rules })
    app.post('/:purpose', { config: { limit: rules.map(rule => rule.name) } }, async () => '')
    await app.ready()
    t.same(Object.values(app.limit.rules), rules, at)
  }
})

t.test('examples in TypeScript compile under strict', async t => {
  const typed = examples.filter(example => example.language === 'ts')
  t.ok(typed.length > 0)
  const compilerOptions = {
    noEmit: true,
    rootDir: fileURLToPath(root),
    paths: { 'fastify-send-limit': [fileURLToPath(plugin)] }
  }
  const config = {
    extends: fileURLToPath(new URL('tsconfig.json', root)),
    compilerOptions,
    include: ['*.ts'],
    exclude: []
  }
  const files = Object.fromEntries(typed.map(({ at, text }) => [nameOf(at), text]))
  const project = t.testdir({ ...files, 'tsconfig.json': JSON.stringify(config) })
  const tsc = fileURLToPath(new URL('node_modules/typescript/lib/tsc.js', root))
  await node(process.execPath, [tsc, '-p', project, '--checkers', '1']).catch(error =>
    t.fail((error as { stdout: string }).stdout)
  )
})
