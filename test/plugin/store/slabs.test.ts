import t from 'tap'
import { CELL_BITS, NO_CELL, Slabs } from '../../../plugin/store/slabs.js'

t.test('a cell that gets shorter stays in place while there is no smaller cell', async t => {
  const slabs = new Slabs(0)
  const larger = slabs.resize(NO_CELL, 0, 1_536, false)
  const filled: number[] = []
  const fill = () => slabs.resize(NO_CELL, 0, 1_024, false)
  for (let cell = fill(); cell !== NO_CELL; cell = fill()) filled.push(cell)
  const [cell, other] = filled as [number, number]
  const shorter = () => slabs.resize(cell, 1_024, 700, false)
  t.equal(shorter(), cell)
  t.equal(slabs.resize(cell, 600, 700, false), cell, 'and gets longer in its place')
  slabs.free(larger)
  t.equal(shorter(), cell, 'when a larger cell is free')
  slabs.free(other)
  t.equal(shorter(), cell, 'when a cell as large is free')
})

t.test('a page may be vacated when a page of cells is free, and `spare` more or as many again', async t => {
  const slabs = new Slabs(0)
  const filled: number[] = []
  const fill = () => slabs.resize(NO_CELL, 0, 1_024, false)
  for (let cell = fill(); cell !== NO_CELL; cell = fill()) filled.push(cell)
  // Two of the eight cells of each page.
  const ours = filled.filter((_, i) => i % 8 < 2)
  for (const cell of ours.splice(0, 10)) slabs.free(cell)
  t.equal(slabs.sparsest(3), NO_CELL)
  const third = filled[2 * 8 + 2] as number
  slabs.free(third)
  t.equal(slabs.sparsest(3), third >>> CELL_BITS, 'the page with the fewest cells in use')
  for (const cell of ours.splice(0, 4)) slabs.free(cell)
  t.equal(slabs.sparsest(9), NO_CELL)
  slabs.free(ours.shift() as number)
  t.not(slabs.sparsest(9), NO_CELL)
})
