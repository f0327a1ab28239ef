import { isHeld, kindOf } from '../limits/index.js'
import { textOf } from './lua.js'
import { type Script, scriptOf } from './scripts.js'
import { type Entry, type Spec, specInForce } from './store.js'

/**
 * How many mixtures of specs have a script of their own, in an app. A request may choose among optional keys, so there
 * may be very many mixtures, and Redis may keep every script that it has seen.
 */
const MAX_SCRIPTS = 64

/** The most work of one call, in short logs: it takes some half a millisecond, in which Redis does nothing else. */
const WORK = 200

const body = textOf('reserve')

/** The script for any mixture: its specs are passed with each call. */
export const anyMixture = scriptOf(
  `local entries, specs, past = unpack(cjson.decode(table.remove(ARGV)))\n${body}`
)

/** The specs of these entries, as they are written before a script of their own, or passed to `anyMixture`. */
function specsOf(entries: readonly Entry[]): string {
  const specs: (number | string | boolean)[] = []
  for (const entry of entries) {
    const { spec } = entry
    const { code, describe } = kindOf(spec)
    const numbers = describe(entry)
    const next = specs.length + 5 + numbers.length
    // A lock lasts as long as its holder expects, so its own spec tells, even if its rule was replaced.
    const { ttl } = isHeld(spec) ? spec : specInForce(spec)
    specs.push(code, spec.observed && spec.rule, `${ttl}`, next, ...numbers)
  }
  return JSON.stringify(specs)
}

/** How many decisions on such entries one call makes at most. */
function maxDecisionsOf(entries: readonly Entry[]): number {
  const work = entries.reduce((sum, { spec }) => sum + kindOf(spec).work(spec), 0)
  return Math.max(1, Math.floor(WORK / work))
}

/**
 * The scripts that decide: one for each mixture of specs that are decided on together. The specs are written before the
 * script, so that Redis decodes nothing.
 */
export class Mixtures {
  private readonly root = new Branch()
  /** By the specs written before them: when rules are replaced by equal ones, the script stays the same. */
  private readonly scripts = new Map<string, Script>()

  /**
   * The script that decides on these entries. The specs are passed with each call if the mixture has no script of its
   * own: because limits come from this request, rules were replaced since, or there are too many mixtures.
   */
  scriptFor(entries: readonly Entry[]): Script {
    let branch: Branch | undefined = this.root
    for (const { spec, max, zoned } of entries) {
      if (max !== undefined || zoned || specInForce(spec) !== spec)
        return sharedScriptOf(entries, specsOf(entries))
      branch = branch?.next.get(spec)
    }
    return branch?.script ?? this.add(entries)
  }

  private add(entries: readonly Entry[]): Script {
    const specs = specsOf(entries)
    const script = this.scripts.get(specs) ?? this.make(entries, specs)
    if (script === undefined) return sharedScriptOf(entries, specs)
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
    if (this.scripts.size === MAX_SCRIPTS) return undefined
    // An array of JSON and a table of Lua differ only in their brackets.
    const text = `local entries, specs, past = ${entries.length}, {${specs.slice(1, -1)}}\n${body}`
    const script: Script = { ...scriptOf(text), maxDecisions: maxDecisionsOf(entries), unsent: true }
    this.scripts.set(specs, script)
    return script
  }
}

/** The script that counts what was admitted elsewhere before. Its first argument is how many ticks ago that was. */
export function pastOf(entry: Entry): Script {
  return sharedScriptOf([entry], specsOf([entry]), true)
}

function sharedScriptOf(entries: readonly Entry[], specs: string, past = false): Script {
  const { text, sha } = anyMixture
  return {
    text,
    sha,
    maxDecisions: maxDecisionsOf(entries),
    sharedArgument: `[${entries.length},${specs},${past}]`
  }
}

/** A tree of the mixtures that begin with the same specs. Its branches are freed with the specs. */
class Branch {
  readonly next = new WeakMap<Spec, Branch>()
  script: Script | undefined
}
