import type { Rule } from '../plugin/index.js'
import type { Config } from './config.js'
import { isAlone } from './facts.js'

/** Whose attempts are not limited. */
export const backendsOf = ({ BACKENDS }: Pick<Config, 'BACKENDS'>) =>
  BACKENDS?.split(',').map(range => range.trim()) ?? []

/** Attempts are limited by address: of a server that asks for many people they are not, unless the policy says whose. */
export function passBackends(backends: readonly string[]): (rule: Rule) => Rule {
  return rule => {
    const { name, key, counts, allow } = rule
    const limits = counts === 'attempts' && isAlone(key, 'request.ip') && allow === undefined
    // Nobody guesses the operator's key, from wherever.
    if (backends.length === 0 || !limits || name === 'admin-attempts') return rule
    return { ...rule, allow: backends }
  }
}
