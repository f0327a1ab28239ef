import { createHash, timingSafeEqual } from 'node:crypto'
import { type Config, DEVELOPMENT_KEY } from './config.js'

/** Who sends, by key. */
export interface Account {
  id: string
}

const hash = (key: string) => createHash('sha256').update(key).digest()

/** Answers whose key it is. Keys are held as hashes, and all are compared, whichever it is. */
export function accountsOf({ API_KEYS, NODE_ENV }: Config): (key: string) => Account | undefined {
  const development = NODE_ENV === 'production' ? undefined : `${DEVELOPMENT_KEY}:development`
  const pairs = (API_KEYS ?? development)?.split(',') ?? []
  const accounts = pairs.map(pair => {
    const [key = '', id = ''] = pair.split(':')
    return { hash: hash(key), account: { id } }
  })
  return key => {
    const given = hash(key)
    return accounts.filter(each => timingSafeEqual(each.hash, given))[0]?.account
  }
}
