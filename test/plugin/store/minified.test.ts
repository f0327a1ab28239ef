import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import type { Redis } from 'ioredis'
import t from 'tap'
import { RedisStore } from '../../../plugin/store/redis.js'
import type { Entry } from '../../../plugin/store/store.js'
import { entry, log, token } from '../../contract/specs.js'
import { folderOf } from '../../helper/folder.js'
import { startRedis } from '../../helper/redis.js'

const { client: admin, url } = await startRedis(t)

/** The client as in a minified bundle of an app, where the names of its classes are short ones. */
async function minified(name: string): Promise<Redis> {
  const outfile = join(folderOf(t), `${name}.mjs`)
  const js = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"
  await build({
    stdin: { contents: `export { Redis } from '${name}'`, resolveDir: process.cwd() },
    bundle: true,
    minify: true,
    platform: 'node',
    format: 'esm',
    banner: { js },
    outfile
  })
  const { Redis } = await import(pathToFileURL(outfile).href)
  const client = new Redis(url, { autoResendUnfulfilledCommands: false })
  t.teardown(() => client.disconnect())
  return client
}

for (const name of ['ioredis', 'ioredis-5']) {
  t.test(
    `${name}, minified: a foreign value fails the decision about it, and no other in the same call`,
    async t => {
      await admin.flushall()
      const store = new RedisStore(await minified(name), 'test:')
      const spec = log([5, 60_000])
      const asked = Array.from({ length: 10 }, (_, i) => [entry(spec, i)])
      // The first decision of a mixture sends its script.
      await store.reserve([entry(spec, 'warm')], token())
      const [foreign] = asked[3] as [Entry]
      await admin.rpush(`test:{${foreign.identity}}:${foreign.spec.name}`, 'theirs')
      const all = await Promise.allSettled(asked.map(entries => store.reserve(entries, token())))
      t.strictSame(
        all.flatMap(({ status }, i) => (status === 'rejected' ? [i] : [])),
        [3]
      )
    }
  )
}
