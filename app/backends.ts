import type { Rule } from '../plugin/index.js'
import type { Config } from './config-schema.js'
import { isAlone } from './facts.js'

/** The addresses and CIDR ranges of BACKENDS, whose attempts are not limited. */
export const backendsOf = ({ BACKENDS }: Pick<Config, 'BACKENDS'>) =>
  BACKENDS?.split(',').map(range => range.trim()) ?? []

/**
 * Exempts backends from rules that limit attempts by address, since such a server asks for many people. A rule that has
 * an `allow` in the policy stays as it is.
 */
export function passBackends(backends: readonly string[]): (rule: Rule) => Rule {
  return rule => {
    const { name, key, counts, allow } = rule
    const limits = counts === 'attempts' && isAlone(key, 'request.ip') && allow === undefined
    // No address is exempt from `admin-attempts`, lest the operator's key be guessed from there.
    if (backends.length === 0 || !limits || name === 'admin-attempts') return rule
    return { ...rule, allow: backends }
  }
}
