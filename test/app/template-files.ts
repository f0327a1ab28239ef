import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TemplateFiles } from '../../app/templates/schema.js'
import { folderOf } from '../helper/folder.js'
import type { Teardown } from '../helper/teardown.js'

/** The shipped templates, as they are in their files. */
export function loadFiles(): TemplateFiles {
  const read = (name: string) =>
    JSON.parse(readFileSync(new URL(`../../app/templates/${name}`, import.meta.url), 'utf8'))
  return { sms: read('sms.json'), mail: read('mail.json') }
}

/** A folder of templates, to be named in TEMPLATES_DIR. */
export function templatesFolder(t: Teardown) {
  const folder = folderOf(t)
  const write = (files: TemplateFiles) => {
    for (const [name, content] of Object.entries(files))
      writeFileSync(join(folder, `${name}.json`), JSON.stringify(content))
  }
  return { folder, write }
}
