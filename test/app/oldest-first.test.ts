import fc from 'fast-check'
import t from 'tap'
import { OldestFirst } from '../../app/oldest-first.js'

const key = fc.integer({ min: 0, max: 5 })
const set = fc.record({ key, value: fc.integer() })
const deleted = fc.record({ key })

t.test('OldestFirst is a map in the order in which keys were last set', async t => {
  fc.assert(
    fc.property(fc.array(fc.oneof(set, deleted)), steps => {
      const map = new OldestFirst<number, number>()
      let model: [key: number, value: number][] = []
      for (const step of steps) {
        model = model.filter(([key]) => key !== step.key)
        if ('value' in step) {
          model.push([step.key, step.value])
          map.set(step.key, step.value)
        } else map.delete(step.key)
        const [oldest] = model
        if (map.oldest?.key !== oldest?.[0] || map.oldest?.value !== oldest?.[1]) return false
      }
      if (
        String([...map.newestFirst()].map(({ key }) => key)) !== String(model.map(([key]) => key).reverse())
      )
        return false
      // The entry that was just returned may be deleted.
      const even = ({ key }: { key: number }) => key % 2 === 0
      for (const each of map.newestFirst()) if (even(each)) map.delete(each.key)
      model = model.filter(([key]) => !even({ key }))
      const same = model.every(([key, value]) => map.get(key) === value)
      const { size } = map
      for (const [key] of model) {
        if (map.oldest?.key !== key) return false
        map.delete(key)
      }
      return same && size === model.length && map.oldest === undefined
    }),
    { numRuns: 1_000 }
  )
  t.pass('keys may be set and deleted in any order')
})
