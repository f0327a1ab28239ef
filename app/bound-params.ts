import { ConfigError } from './check.js'
import type { Policy } from './policy-schema.js'
import { CHANNELS } from './senders/sender.js'
import { boundNames, codeTemplate, purposeOf } from './templates/codes.js'
import type { Templates } from './templates/templates.js'

/**
 * Checks that each purpose binds its codes to exactly the params that the templates of its messages take.
 * @throws ConfigError that says what is wrong, and where
 */
export function checkBoundParams({ purposes }: Policy, { ofCodes }: Templates): void {
  for (const channel of CHANNELS) {
    const templates = ofCodes(channel)
    const taken = (template: string) => boundNames(template, Object.keys(templates[template]?.params ?? {}))
    for (const [purpose, { params = [] }] of Object.entries(purposes)) {
      const template = codeTemplate(purpose, params)
      const path = `policy.purposes.${purpose}.params`
      if (params.length > 0 && !Object.hasOwn(templates, template))
        throw new ConfigError(`${path} needs the template ${template}, which ${channel}.json does not have.`)
      for (const [i, name] of params.entries()) {
        if (taken(template).includes(name)) continue
        const right = `is nothing that codes are bound to by templates.${channel}.${template}.params`
        throw new ConfigError(`${path}[${i}] (${JSON.stringify(name)}) ${right}.`)
      }
    }
    for (const template of Object.keys(templates)) {
      const purpose = purposeOf(template)
      if (purpose === undefined) continue
      const { params = [] } = (Object.hasOwn(purposes, purpose) && purposes[purpose]) || {}
      const stray = taken(template).find(name => !params.includes(name))
      if (stray === undefined) continue
      const path = `templates.${channel}.${template}.params.${stray}`
      throw new ConfigError(`${path} is none of policy.purposes.${purpose}.params.`)
    }
  }
}
