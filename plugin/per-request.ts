import { isTimeZone } from './calendar.js'
import type { CompiledRule } from './compiled-rule.js'
import type { Source } from './identity/path.js'
import type { OfRequest } from './key.js'
import { CALENDAR_MAX } from './limits/compile.js'
import { wrongOption, wrongReturn } from './mistakes.js'
import type { Spec } from './store/store.js'

type Request = Parameters<OfRequest<unknown>>[0]

/**
 * Whether the rule's `allow` function lets this request pass; without a request it lets nobody.
 * @throws FunctionError
 */
export function isAllowed({ name, allowFunction }: CompiledRule, source: Source | undefined): boolean {
  if (allowFunction === undefined || source === undefined) return false
  return truth(allowFunction(source as Request), 'allow', name)
}

/**
 * Whether the rule's `private` function hides it from this request; without a request it does.
 * @throws FunctionError
 */
export function isHidden({ name, hidden }: CompiledRule, request: Request | undefined): boolean {
  if (typeof hidden !== 'function') return false
  return request === undefined || truth(hidden(request), 'private', name)
}

function truth(answer: unknown, of: 'allow' | 'private', name: string): boolean {
  // A promise is truthy, so it would mean `true` for everybody.
  if (typeof answer !== 'boolean') throw wrongReturn(answer, `"${of}" of the rule ${name}`, 'true or false')
  return answer
}

/** The rule's spec at `i` for this request, from which its time zone may come. @throws FunctionError, OptionError */
export function specOf(
  { name, specs, timeZones }: CompiledRule,
  i: number,
  source: Source | undefined
): Spec {
  const spec = specs[i] as Spec
  const timeZoneOf = timeZones?.[i]
  if (timeZoneOf === undefined) return spec
  const timeZone: unknown = timeZoneOf(needed(source, 'timeZone', name))
  if (!isTimeZone(timeZone))
    throw wrongReturn(timeZone, `"timeZone" of the rule ${name}`, 'an IANA time zone such as "Asia/Shanghai"')
  return { ...spec, timeZone } as Spec
}

/**
 * The `max` of each limit of the rule's spec at `i`, held between 0 and the limit's ceiling; undefined for a rule of
 * which no `max` comes from the request.
 * @throws FunctionError, OptionError
 */
export function maxOf(
  { name, specs, max }: CompiledRule,
  i: number,
  source: Source | undefined
): number[] | undefined {
  return max?.[i]?.map((given, at) => {
    if (typeof given === 'number') return given
    const answer: unknown = given(needed(source, 'max', name))
    if (typeof answer !== 'number' || Number.isNaN(answer))
      throw wrongReturn(answer, `"max" of the rule ${name}`, 'a number')
    return Math.min(Math.max(Math.floor(answer), 0), specs[i]?.limits[at]?.max ?? 0)
  })
}

/**
 * How much the request takes of the rule's limits; undefined for a rule without a `cost`.
 * @throws FunctionError, OptionError
 */
export function costOf({ name, cost }: CompiledRule, source: Source | undefined): number | undefined {
  if (cost === undefined) return undefined
  const answer: unknown = cost(needed(source, 'cost', name))
  if (typeof answer === 'number' && answer > 0 && answer <= CALENDAR_MAX) return Math.ceil(answer)
  throw wrongReturn(answer, `"cost" of the rule ${name}`, `a number above 0, ${CALENDAR_MAX} at most`)
}

function needed(source: Source | undefined, what: string, name: string): Request {
  if (source === undefined)
    throw wrongOption(
      'request',
      source,
      `The rule ${name} takes its "${what}" from the request: pass the request.`
    )
  return source as Request
}
