import t from 'tap'
import { loadPolicy } from '../../app/policy.js'
import { read } from './blocks.js'

/** How the page tells a window or a period. */
const spans: Record<string, RegExp> = { '60s': /60 s|minute/, '1h': /hour/, '24h': /24 h/, day: /a day/ }

t.test('the page tells the limits of every rule', async t => {
  const { rules } = loadPolicy()
  const rows = read('docs/policy.md').matchAll(/^\| ((?:`[\w-]+`(?:, )?)+) \| [^|]* \| ([^|]*) \|$/gm)
  for (const [, names = '', told = ''] of rows) {
    const limits = [...names.matchAll(/`([\w-]+)`/g)].flatMap(
      ([, name]) => rules.find(rule => rule.name === name)?.limits ?? []
    )
    if (limits.length === 0) continue
    const numbers = told.replace(/`[^`]*`|\b60 s\b|\b24 h\b|,(?=\d)/g, '').match(/\d+/g) ?? []
    const most = limits.map(({ max }) => (typeof max === 'number' ? String(max) : /^\d+$/))
    t.match(numbers, most, names)
    t.equal(numbers.length, most.length, names)
    for (const limit of limits) t.match(told, spans['per' in limit ? limit.per : limit.window], names)
  }
})
