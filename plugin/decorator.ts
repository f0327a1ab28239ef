import type { FastifyBaseLogger, FastifyRequest, RawServerBase, RouteGenericInterface } from 'fastify'
import { type Awaitable, isPromise } from './awaitable.js'
import type { Decision } from './decision.js'
import { durationAt } from './duration.js'
import { hasListeners, publish } from './events.js'
import { refusal } from './http.js'
import type { Limiter } from './limiter.js'
import { type Keys, namedBy } from './named.js'
import type { SendLimitOptions } from './options.js'
import { failureOf } from './outcome.js'
import { planFor, planOf } from './plan.js'
import type { Rule } from './rule.js'
import type { Verdict } from './verdict.js'

/** A request of any server, HTTP/2 too. */
type AnyRequest = FastifyRequest<RouteGenericInterface, RawServerBase>

/** `fastify.limit`: the limits outside of routes. Keys are values by rule: `{ mobile: '+8613800138000' }`. */
export interface LimitDecorator {
  /**
   * Decides over all the rules named together and, if all admit, reserves a slot of each. Settle the decision with
   * `keep()` or `refund()`, then release its locks with `end()`. A refusal is not thrown: look at `allowed`.
   * @param request needed by rules whose `max` or `timeZone` comes from the request; without it no `allow` function is
   *   asked
   * @throws RuleUnknownError, KeyMissingError, KeyInvalidError, FunctionError, OptionError, StoreUnavailableError,
   *   StoreFullError, what a function of a rule throws; before the server is ready also SecretMismatchError, which
   *   every call but `replace` may throw then
   */
  reserve(keys: Keys, request?: AnyRequest): Promise<Decision>
  /**
   * Reserves, calls `send`, and settles by how that ended, as a route does (docs/settlement.md): when it returns, the
   * message counts as sent; when it throws, the slots are given back, unless the error leaves open whether the message
   * left. Locks are released.
   * @param send sends the message; with the decision it may settle by itself, and read what is left
   * @returns what `send` returned, after everything is settled
   * @throws a refusal as ExceededError, InFlightError or BlockedError, with `decision`, `headers` and `problem`; what
   *   `send` throws; and as `reserve`
   */
  run<T>(keys: Keys, send: (decision: Decision) => Awaitable<T>, request?: AnyRequest): Promise<T>
  /**
   * Returns the verdict that `reserve` would come to now; changes nothing. While Redis does not answer, no memory
   * stands in for it here: the call rejects.
   * @throws as `reserve`, but no StoreFullError
   */
  peek(keys: Keys, request?: AnyRequest): Promise<Verdict>
  /**
   * Gives back the slots that a receipt names (`decision.receipt()`), in whichever process it was made and whatever the
   * rules are now. Slots that were given back before, or whose window or period is over, are left alone, so a second
   * call with the same receipt changes nothing.
   * @throws ReceiptError for a text that is no receipt, was altered, or was made under another secret, prefix or
   *   memory; StoreUnavailableError, StoreFullError: try again later
   */
  refund(receipt: string): Promise<void>
  /** Clears what is counted for these identities; blocks stay. @throws as `unblock` */
  clear(keys: Keys): Promise<void>
  /**
   * Refuses these identities by the rules named. A rule with a `lock` cannot block (OptionError).
   * @param duration such as `"10m"`, or milliseconds; without it the block lasts until `unblock`
   * @throws as `unblock`
   */
  block(keys: Keys, duration?: string | number): Promise<void>
  /**
   * Ends the blocks of these identities; what is counted stays. While Redis does not answer, no memory stands in for it
   * here: the call rejects.
   * @throws RuleUnknownError, KeyMissingError, KeyInvalidError, FunctionError, OptionError, StoreUnavailableError
   */
  unblock(keys: Keys): Promise<void>
  /**
   * Resolves unless it is known that this process does not count together with the others. Once the server is ready, it
   * sends no command to Redis; for a readiness probe.
   * @throws SecretMismatchError if Redis was reached only after the start, and other processes there use another secret
   */
  verify(): Promise<void>
  /**
   * Replaces all rules of the plugin's options by these, in this process, for every route at once. Counting under the
   * same name and kind of key continues. Inline rules of routes stay. When it throws, nothing has changed.
   * @throws OptionError with the path of the mistake, RuleUnknownError when a route names a rule that is gone
   */
  replace(rules: readonly Rule[]): void
  /** Every rule by name; inline rules of routes by `name@METHOD url`, with the route's constraints. */
  readonly rules: Readonly<Record<string, Rule>>
}

/**
 * Builds `fastify.limit` over a limiter.
 * @param store its `begin` comes before every call but `replace`, and is waited for where it returns a promise
 * @param log gets the errors of `onDecision`
 */
export function decorator(
  limiter: Limiter,
  options: SendLimitOptions,
  { begin, verify }: { begin(): Awaitable<void>; verify(): void },
  replace: LimitDecorator['replace'],
  log: FastifyBaseLogger
): LimitDecorator {
  /** The same call, made after the store has been looked at: at once, if that is done. */
  const begun =
    <Given extends unknown[], Answer>(call: (...given: Given) => Promise<Answer>) =>
    (...given: Given): Promise<Answer> => {
      const beginning = begin()
      return isPromise(beginning) ? beginning.then(() => call(...given)) : call(...given)
    }
  // The most frequent call, so not wrapped by `begun`.
  const reserve: LimitDecorator['reserve'] = async (keys, request) => {
    const beginning = begin()
    if (isPromise(beginning)) await beginning
    const reserved = limiter.decideFor(keys, request ?? undefined)
    const decision = isPromise(reserved) ? await reserved : reserved
    if (hasListeners(options)) {
      const about = (request ?? null) as FastifyRequest | null
      publish({ stage: 'sends', route: null }, decision, decision.verdict(), options, about, log)
    }
    return decision
  }
  let listed: LimitDecorator['rules'] = {}
  let listedOf: typeof limiter.rules | undefined
  let listedCount = 0
  return {
    reserve,
    async run(keys, send, request) {
      await begin()
      const { rules } = namedBy(keys, limiter.rules)
      const decision = await reserve(keys, request)
      if (!decision.allowed) {
        const about = (request ?? undefined) as FastifyRequest | undefined
        // Inline rules of several routes may have the same name, and headers could not tell which one they mean.
        const unique = rules.filter(({ name }) => rules.filter(other => other.name === name).length === 1)
        const { disclosures } = planFor(planOf('', unique), unique, about)
        throw refusal(decision.verdict(), disclosures)
      }
      try {
        const answer = await send(decision)
        await decision.settle(200)
        return answer
      } catch (error) {
        await decision.settle(failureOf(error, 500))
        throw error
      } finally {
        decision.keep()
        await decision.release()
      }
    },
    peek: begun((keys: Keys, request?: AnyRequest) => limiter.peek(keys, request ?? undefined)),
    refund: begun((receipt: string) => limiter.refund(receipt)),
    clear: begun((keys: Keys) => limiter.clear(keys)),
    block: begun(async (keys: Keys, duration?: string | number) =>
      limiter.block(keys, duration === undefined ? 0 : durationAt(duration, 'duration'))
    ),
    unblock: begun((keys: Keys) => limiter.unblock(keys)),
    verify: begun(async () => verify()),
    replace,
    get rules() {
      const { rules } = limiter
      // Listed anew only when the rules have changed: some apps read it with each decision.
      if (listedOf !== rules || listedCount !== rules.size) {
        listedOf = rules
        listedCount = rules.size
        listed = Object.freeze(Object.fromEntries([...rules].map(([name, rule]) => [name, rule.options])))
      }
      return listed
    }
  }
}
