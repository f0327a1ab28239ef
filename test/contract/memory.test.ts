import t from 'tap'
import { MemoryStore } from '../../plugin/store/memory.js'
import { storeContract } from './store.js'
import { Time } from './time.js'

await storeContract(t, 'memory', async (t, start) => {
  const time = new Time(start)
  const store = new MemoryStore({ clock: time.clock, maxKeys: 100 })
  t.teardown(() => store.close())
  return { store, time }
})
