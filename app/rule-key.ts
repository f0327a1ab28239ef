import type { Rule } from '../plugin/index.js'

/** The path of a rule's key where that is one value, such as `request.recipient.identity`. */
export function valuePath(key: Rule['key'] | undefined): string | undefined {
  const [part, ...others] = [key].flat()
  const alone = others.length === 0 && typeof part === 'object' && part !== null
  return alone && 'value' in part ? part.value : undefined
}
