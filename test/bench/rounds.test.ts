import t from 'tap'
import { summarize } from '../../bench/lib/rounds.js'

t.test('the summary of rounds has their median', async t => {
  for (const [values, median] of [
    [[3, 1, 2], 2],
    [[3, 1], 2],
    [[1, 10, 2, 9], 5.5],
    [[7], 7]
  ] as const)
    t.equal(summarize(values).median, median, values.join(' '))
})
