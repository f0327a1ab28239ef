import type { FastifyRequest } from 'fastify'
import { TimeoutError } from './errors.js'
import type { Filter, FilterResult } from './filter.js'
import { wrongReturn } from './mistakes.js'
import { within } from './within.js'

interface FilterRefusal {
  /** The name of the filter. */
  name: string
  /** In milliseconds; null where waiting does not help. */
  retryAfterMs: number | null
}

/** A filter's result, with the name of the filter. */
interface Pass {
  name: string
  result: FilterResult
}

/** The filters that one request has passed. They are undone if the request does not go on to its handler. */
export class FilterChain {
  private readonly passes: Pass[] = []

  /** @param timeout how long each `check` and each `undo` may take, in milliseconds */
  constructor(
    private readonly request: FastifyRequest,
    private readonly timeout: number
  ) {}

  /**
   * Runs filters one after another, to the first that refuses.
   * @throws TimeoutError, FunctionError, what a filter throws
   */
  async check(filters: readonly Filter[]): Promise<FilterRefusal | null> {
    const { request, timeout } = this
    for (const filter of filters) {
      const { name } = filter
      const checked = Promise.resolve(filter.check(request))
      const late = () => {
        // A pass that comes too late is taken back as well.
        void checked
          .then(result => (result?.allowed ? this.takeBack({ name, result }) : undefined))
          .catch(error => request.log.error({ err: error }, `filter ${name}`))
        return new TimeoutError(`the filter ${name}`, timeout)
      }
      const result = verified(name, await within(checked, timeout, late))
      if (result?.allowed === false) return { name, retryAfterMs: result.retryAfterMs ?? null }
      if (result) this.passes.push({ name, result })
    }
    return null
  }

  /** Undoes the filters that were passed, in reverse order. If one fails, that is logged, and the others are undone. */
  async undo(): Promise<void> {
    for (const pass of this.passes.splice(0).reverse()) await this.takeBack(pass)
  }

  private async takeBack({ name, result }: Pass): Promise<void> {
    const { request, timeout } = this
    try {
      const late = () => new TimeoutError(`the undo of the filter ${name}`, timeout)
      await within(result.undo?.(), timeout, late)
    } catch (error) {
      request.log.error({ err: error }, `the filter ${name} could not undo`)
    }
  }
}

// A filter in plain JavaScript that answers `false` must not let everybody pass.
function verified(name: string, result: FilterResult | undefined | void): FilterResult | undefined {
  if (result === undefined || result === null) return undefined
  const { allowed } = result
  // It may be null, as in a verdict, so that a filter may return the verdict of `fastify.limit.peek`.
  const retryAfterMs = result.retryAfterMs ?? 0
  const named = Number.isFinite(retryAfterMs) && retryAfterMs >= 0 && retryAfterMs <= Number.MAX_SAFE_INTEGER
  if (typeof allowed !== 'boolean' || !named) {
    throw wrongReturn(
      result,
      `the filter ${name}`,
      'nothing, or { allowed: true or false } with a "retryAfterMs" from 0'
    )
  }
  return result
}
