import t from 'tap'
import { equivalenceOf, quantile } from '../../bench/conceal/equivalence.js'

t.test('the quantile of Student’s t is that of the tables', async t => {
  for (const [freedom, table] of [
    [10, 1.812],
    [30, 1.697],
    [120, 1.658],
    [Infinity, 1.645]
  ] as const) {
    t.equal(quantile(freedom).toFixed(3), table.toFixed(3), `${freedom}`)
  }
})

t.test('two samples are equivalent where the interval of their difference is within the margin', async t => {
  const first = [20, 21, 19, 22, 18, 20, 21, 19, 20, 20, 23, 17]
  const second = first.map(each => each * 2 - 18)
  const { difference, interval, equivalent } = equivalenceOf(first, second, 5)
  // By hand: variances 30 / 11 and 4 times that, 12 each; 16.2 degrees of freedom.
  t.equal(difference, -2)
  t.same(
    interval.map(each => each.toFixed(2)),
    ['-3.86', '-0.14']
  )
  t.equal(equivalent, true)
  t.equal(equivalenceOf(first, second, 3).equivalent, false)
  t.equal(equivalenceOf(second, first, 3).equivalent, false)
})
