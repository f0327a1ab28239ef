import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Teardown } from './teardown.js'

/** A folder of this test's own, outside the repository; deleted in teardown. */
export function folderOf(t: Teardown): string {
  const folder = mkdtempSync(join(tmpdir(), 'send-limit-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
