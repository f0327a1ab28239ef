import t from 'tap'
import * as errors from '../../plugin/errors.js'
import { read } from './blocks.js'

const AT_START = /^At (?:registration|start)\b/
const [, ...sections] = read('docs/errors.md').split('\n## ')
const page = sections.map(section => {
  const [code = '', , text = ''] = section.split('\n')
  return { code, status: AT_START.test(text) ? 'start' : (/^Status (\d{3})\./.exec(text)?.[1] ?? text) }
})

type Failure = { code: string; statusCode?: number }
const inCode = Object.values(errors)
  .filter(value => value.prototype instanceof Error && value !== errors.LimitError)
  .map(value => Reflect.construct(value, ['a', 'b', 'c']) as Failure)
  .map(({ code, statusCode = 500 }) => ({ code, status: String(statusCode) }))

t.test('the page and the code name the same errors', async t => {
  t.same(page.map(each => each.code).sort(), inCode.map(each => each.code).sort())
  t.equal(new Set(page.map(each => each.code)).size, page.length, 'each error is named once')
})

t.test('the page names each error with its status', async t => {
  for (const { code, status } of page) {
    const expected = inCode.find(each => each.code === code)?.status
    t.equal(status === 'start' ? '500' : status, expected, code)
  }
})

t.test('the page names a cure for each error', async t => {
  for (const section of sections) t.match(section, /^Cure: [\s\S]+\.$/m, section.split('\n')[0] ?? '')
})
