import { isTimeZone } from './calendar.js'
import type { CompiledRule } from './compiled-rule.js'
import { misanswered, wrongOption } from './errors.js'
import type { Source } from './identity/path.js'
import type { AllowFunction, MaxFunction, TimeZoneFunction } from './rule.js'
import type { Entry, Spec } from './store/store.js'

type Request = Parameters<MaxFunction & TimeZoneFunction & AllowFunction>[0]

/** What a store is asked about a rule, with the `max` and the time zone that this request brings. @throws FunctionError, OptionError */
export function entriesFor(
  rule: CompiledRule,
  identity: string,
  value: number | undefined,
  source: Source | undefined
): Entry[] {
  const { specs, max, timeZones } = rule
  const entries: Entry[] = new Array(specs.length)
  for (let i = 0; i < specs.length; i++) {
    const spec = specs[i] as Spec
    const timeZone = timeZones?.[i]
    entries[i] = new Asked(
      timeZone === undefined ? spec : zoned(spec, timeZone, rule, source),
      identity,
      max && maxOf(max[i] ?? [], spec, rule, source),
      value,
      timeZone !== undefined
    )
  }
  return entries
}

class Asked implements Entry {
  constructor(
    readonly spec: Spec,
    readonly identity: string,
    readonly max: readonly number[] | undefined,
    readonly value: number | undefined,
    readonly zoned: boolean
  ) {}
}

/** Whether the rule's `allow` function lets this request pass; outside of requests it does not. @throws FunctionError */
export function isAllowed({ name, passes }: CompiledRule, source: Source | undefined): boolean {
  if (passes === undefined || source === undefined) return false
  // A promise would be true for everybody.
  const answer: unknown = passes(source as Request)
  if (typeof answer !== 'boolean') throw misanswered(answer, `"allow" of the rule ${name}`, 'true or false')
  return answer
}

function zoned(
  spec: Spec,
  timeZoneOf: TimeZoneFunction,
  { name }: CompiledRule,
  source: Source | undefined
): Spec {
  const timeZone: unknown = timeZoneOf(needed(source, 'timeZone', name))
  if (!isTimeZone(timeZone))
    throw misanswered(timeZone, `"timeZone" of the rule ${name}`, 'an IANA time zone such as "Asia/Shanghai"')
  return { ...spec, timeZone } as Spec
}

function maxOf(
  given: readonly (number | MaxFunction)[],
  spec: Spec,
  { name }: CompiledRule,
  source: Source | undefined
): number[] {
  return given.map((max, i) => {
    if (typeof max === 'number') return max
    const answer: unknown = max(needed(source, 'max', name))
    if (typeof answer !== 'number' || Number.isNaN(answer))
      throw misanswered(answer, `"max" of the rule ${name}`, 'a number')
    return Math.min(Math.max(Math.floor(answer), 0), spec.limits[i]?.max ?? 0)
  })
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
