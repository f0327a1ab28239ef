import { readFileSync } from 'node:fs'
import { nextTick } from 'node:process'
import type { Redis } from 'ioredis'

export type Argument = string | number
export type Scripts<Name extends string> = Record<
  Name,
  (keys: readonly string[], ...args: Argument[]) => Promise<unknown>
>

/** ioredis makes each script that is defined on a client a method of that client. */
type Commands = Record<string, (...args: Argument[]) => Promise<unknown>>

/**
 * The scripts of a folder of `app/`, each as a function of its keys and arguments. `app/prelude.lua` and the
 * folder's `prelude.lua` are prepended to each. A call is one round trip. Calls of one step of the event loop leave in
 * one write, except on a cluster, whose client has no stream.
 */
export function scriptsOf<Name extends string>(
  client: Redis,
  folder: 'captcha' | 'idempotency' | 'lists',
  names: readonly Name[]
): Scripts<Name> {
  const text = (path: string) => readFileSync(new URL(`${path}.lua`, import.meta.url), 'utf8')
  const before = text('prelude') + text(`${folder}/prelude`)
  const commands = client as unknown as Commands
  const scripts = {} as Scripts<Name>
  for (const name of names) {
    const command = `${folder}.${name}`
    client.defineCommand(command, { lua: before + text(`${folder}/${name}`) })
    scripts[name] = (keys, ...args) => {
      const { stream } = client
      stream?.cork()
      nextTick(() => stream?.uncork())
      return (commands[command] as Commands[string])(keys.length, ...keys, ...args)
    }
  }
  return scripts
}
