import { kindOf } from '../limits/index.js'
import { textOf } from './lua.js'
import { type Script, scriptOf } from './scripts.js'
import { type Entry, keeperOf, type Spec } from './store.js'

/**
 * How many mixtures have a script of their own, in an app. Who asks may choose among a rule's optional keys, so there
 * may be very many mixtures, and Redis may keep every script that it has seen.
 */
const MOST = 64

/** Redis is at nothing else while it makes the decisions of one call: of so many short logs, some half a millisecond. */
const WORK = 200

const body = textOf('reserve')

/** For every mixture: it is told the specs with each call. */
export const anyMixture = scriptOf(
  `local entries, specs, past = unpack(cjson.decode(table.remove(ARGV)))\n${body}`
)

/** What is written of these entries before the script of their own, or told to `anyMixture`. */
function specsOf(entries: readonly Entry[]): string {
  const specs: (number | string | boolean)[] = []
  for (const entry of entries) {
    const { spec } = entry
    const { code, describe } = kindOf(spec)
    const numbers = describe(entry)
    const next = specs.length + 5 + numbers.length
    // A lock lasts as long as its holder takes it to.
    const { ttl } = spec.kind === 'lock' ? spec : keeperOf(spec)
    specs.push(code, spec.observed && spec.rule, `${ttl}`, next, ...numbers)
  }
  return JSON.stringify(specs)
}

/** How many decisions on such entries one call makes at most. */
function decidesOf(entries: readonly Entry[]): number {
  const work = entries.reduce((sum, { spec }) => sum + kindOf(spec).work(spec), 0)
  return Math.max(1, Math.floor(WORK / work))
}

/**
 * The scripts that decide: one for each mixture of specs that are asked about together, with these written before
 * it, so that Redis decodes nothing.
 */
export class Mixtures {
  private readonly root = new Branch()
  /** By the specs before them: rules that were replaced by their like keep theirs. */
  private readonly scripts = new Map<string, Script>()

  /**
   * One that is told the specs for a mixture that has none: its limits come from this request, its rules were replaced since,
   * or there are too many.
   */
  scriptFor(entries: readonly Entry[]): Script {
    let branch: Branch | undefined = this.root
    for (const { spec, max, zoned } of entries) {
      if (max !== undefined || zoned || keeperOf(spec) !== spec) return toldOf(entries, specsOf(entries))
      branch = branch?.next.get(spec)
    }
    return branch?.script ?? this.add(entries)
  }

  private add(entries: readonly Entry[]): Script {
    const specs = specsOf(entries)
    const script = this.scripts.get(specs) ?? this.make(entries, specs)
    if (script === undefined) return toldOf(entries, specs)
    let branch = this.root
    for (const { spec } of entries) {
      const next = branch.next.get(spec) ?? new Branch()
      branch.next.set(spec, next)
      branch = next
    }
    branch.script = script
    return script
  }

  private make(entries: readonly Entry[], specs: string): Script | undefined {
    if (this.scripts.size === MOST) return undefined
    // An array of JSON and a table of Lua differ in their brackets.
    const text = `local entries, specs, past = ${entries.length}, {${specs.slice(1, -1)}}\n${body}`
    const script: Script = { ...scriptOf(text), decides: decidesOf(entries), fresh: true }
    this.scripts.set(specs, script)
    return script
  }
}

/** One that counts what was admitted elsewhere before. It is told first how many ticks ago that was. */
export function pastOf(entry: Entry): Script {
  return toldOf([entry], specsOf([entry]), true)
}

function toldOf(entries: readonly Entry[], specs: string, past = false): Script {
  const { text, sha } = anyMixture
  return { text, sha, decides: decidesOf(entries), told: `[${entries.length},${specs},${past}]` }
}

/** Mixtures that begin with the same specs; they go with the specs. */
class Branch {
  readonly next = new WeakMap<Spec, Branch>()
  script: Script | undefined
}
