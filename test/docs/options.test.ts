import t from 'tap'
import { OptionsSchema } from '../../plugin/options.js'
import { RuleSchema } from '../../plugin/rule.js'
import { read } from './blocks.js'

/** The names at the beginning of the rows of a table. */
const named = (text: string) =>
  [...text.matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(([, names = '']) => names.replaceAll('`', '').split(', '))

t.test('the page on options names every option, in the order of the schema, and no other', async t => {
  t.same(named(read('docs/options.md')), Object.keys(OptionsSchema.properties))
})

t.test(
  'the page on rules names every member of a rule, in the order of the schema, and no other',
  async t => {
    const [beginning = ''] = read('docs/rules.md').split('\n## ')
    t.same(named(beginning), Object.keys(RuleSchema.properties))
  }
)
