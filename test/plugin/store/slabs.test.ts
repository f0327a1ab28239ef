import t from 'tap'
import { NONE, Slabs } from '../../../plugin/store/slabs.js'

t.test('what gets shorter stays where there is no smaller cell', async t => {
  const slabs = new Slabs(0)
  const larger = slabs.resize(NONE, 0, 1_536, false)
  const filled: number[] = []
  const fill = () => slabs.resize(NONE, 0, 1_024, false)
  for (let cell = fill(); cell !== NONE; cell = fill()) filled.push(cell)
  const [cell, other] = filled as [number, number]
  const shorter = () => slabs.resize(cell, 1_024, 700, false)
  t.equal(shorter(), cell)
  slabs.free(larger)
  t.equal(shorter(), cell, 'beside a larger one')
  slabs.free(other)
  t.equal(shorter(), cell, 'beside one as large')
})
