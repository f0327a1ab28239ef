import { readFileSync } from 'node:fs'
import type { TemplateFiles } from '../../app/templates/schema.js'

/** The app's own templates, as they stand in their files. */
export function loadFiles(): TemplateFiles {
  const read = (name: string) =>
    JSON.parse(readFileSync(new URL(`../../app/templates/${name}`, import.meta.url), 'utf8'))
  return { sms: read('sms.json'), mail: read('mail.json') }
}
