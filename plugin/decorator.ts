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
   * Decides and reserves over all the rules named; settle the decision with `keep()` or `refund()`, and release its locks
   * with `end()`.
   * @throws RuleUnknownError, KeyMissingError, KeyInvalidError, FunctionError, OptionError, StoreUnavailableError,
   *   StoreFullError; before the server is ready also SecretMismatchError, which every call but `replace` may throw then
   */
  reserve(keys: Keys, request?: AnyRequest): Promise<Decision>
  /**
   * Reserves, sends, and settles by how that ended, as a route does: what it answers is kept, an error gives back unless it
   * leaves open whether the message left. Locks are released.
   * @param send may settle by itself, and read what is left, from the decision
   * @returns what `send` answers, when all is settled
   * @throws the refusal: ExceededError, InFlightError or BlockedError, with `decision`, `headers` and `problem`; what
   *   `send` throws; and as `reserve`
   */
  run<T>(keys: Keys, send: (decision: Decision) => Awaitable<T>, request?: AnyRequest): Promise<T>
  /** The verdict as it would be; changes nothing. @throws as `reserve`, but no StoreFullError */
  peek(keys: Keys, request?: AnyRequest): Promise<Verdict>
  /**
   * Gives back the slots that a receipt names (`decision.receipt()`), wherever it was made, whatever the rules are now. What
   * was given back before, or is over, is left alone: told twice it does the same as once.
   * @throws ReceiptError for a text that is none, was altered, or was made under another secret, prefix or memory;
   *   StoreUnavailableError, StoreFullError: tell it again
   */
  refund(receipt: string): Promise<void>
  /** Forgets what is counted; blocks stay. @throws as `unblock` */
  clear(keys: Keys): Promise<void>
  /**
   * Refuses these identities.
   * @param duration such as `"10m"`, or milliseconds; left out: until `unblock`
   * @throws as `unblock`
   */
  block(keys: Keys, duration?: string | number): Promise<void>
  /**
   * Ends their blocks. While Redis does not answer, nothing stands in for it here.
   * @throws RuleUnknownError, KeyMissingError, KeyInvalidError, OptionError, StoreUnavailableError
   */
  unblock(keys: Keys): Promise<void>
  /**
   * Whether what is counted is counted by all processes together, as far as it is known; asks nothing. For a readiness probe.
   * @throws SecretMismatchError where Redis was reached only after the start, and others there use another secret
   */
  verify(): Promise<void>
  /**
   * Puts these rules in the place of all that the plugin's options hold, for every route at once; counting
   * under a name continues. Rules that stand in a route stay. When it throws, nothing has changed.
   * @throws OptionError with the path of the mistake, RuleUnknownError when a route names a rule that is gone
   */
  replace(rules: readonly Rule[]): void
  /** Every rule by name; those that stand in a route as `name@METHOD url`. */
  readonly rules: Readonly<Record<string, Rule>>
}

/**
 * Builds `fastify.limit` over a limiter.
 * @param store `begin` is waited for, where it has something to wait for, before anything is asked of it
 * @param log hears when `onDecision` fails
 */
export function decorator(
  limiter: Limiter,
  options: SendLimitOptions,
  { begin, verify }: { begin(): Awaitable<void>; verify(): void },
  replace: LimitDecorator['replace'],
  log: FastifyBaseLogger
): LimitDecorator {
  /** The same call, when the store has been looked at: at once, where it has. */
  const begun =
    <Given extends unknown[], Answer>(call: (...given: Given) => Promise<Answer>) =>
    (...given: Given): Promise<Answer> => {
      const beginning = begin()
      return isPromise(beginning) ? beginning.then(() => call(...given)) : call(...given)
    }
  // What is asked most: not through a function more.
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
        // Of those that stand in routes several may have one name: what is left of which, headers could not tell.
        const told = rules.filter(({ name }) => rules.filter(other => other.name === name).length === 1)
        const { disclosures } = planFor(planOf('', told), told, about)
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
      // Some ask with each decision.
      if (listedOf !== rules || listedCount !== rules.size) {
        listedOf = rules
        listedCount = rules.size
        listed = Object.freeze(Object.fromEntries([...rules].map(([name, { options }]) => [name, options])))
      }
      return listed
    }
  }
}
