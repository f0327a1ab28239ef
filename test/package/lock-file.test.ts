import t from 'tap'
import { read } from '../docs/blocks.js'

interface Locked {
  integrity?: string
  /** A workspace of this repository. */
  link?: boolean
  /** Comes within another package. */
  inBundle?: boolean
}

t.test('every package that npm installs has a hash, for each kind of machine', async t => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Locked> }
  const unchecked = Object.entries(packages)
    .filter(([path, { link, inBundle }]) => path.includes('node_modules/') && !link && !inBundle)
    .filter(([, { integrity }]) => !integrity?.startsWith('sha512-'))
  t.same(unchecked, [])
})
