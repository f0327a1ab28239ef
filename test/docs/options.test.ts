import t from 'tap'
import { OptionsSchema } from '../../plugin/options.js'
import { read } from './blocks.js'

t.test('the page names every option, in the order of the schema, and no other', async t => {
  const rows = read('docs/options.md').matchAll(/^\| `([^`]+)` \|/gm)
  t.same(
    [...rows].map(([, name]) => name),
    Object.keys(OptionsSchema.properties)
  )
})
