import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { folderOf } from './folder.js'
import { launch } from './launcher.js'
import type { Teardown } from './teardown.js'
import { until } from './until.js'

/**
 * Starts an HAProxy of this test's own with these sections, which listen at ports of 127.0.0.1; stopped in teardown.
 * Before them are the sections that Debian has, as far as they matter, with a log in a file. Checks begin sooner.
 */
export async function startHaproxy(t: Teardown, sections: string) {
  const folder = folderOf(t)
  const at = (name: string) => join(folder, name)
  writeFileSync(
    at('haproxy.cfg'),
    `global
      log stdout format raw local0
      stats socket ${at('admin.sock')} mode 660 level admin
    defaults
      log global
      mode http
      option httplog
      option dontlognull
      timeout check 10s
      default-server inter 500 fastinter 50 downinter 50
    ${sections}`
  )
  const haproxy = await launch(['haproxy', '-db', '-f', at('haproxy.cfg')], at('log'), {})
  t.teardown(() => haproxy.kill())
  const log = () => readFileSync(at('log'), 'utf8')
  /** Says this to the admin socket. @returns its answer */
  async function admin(command: string) {
    const socket = connect(at('admin.sock'))
    socket.end(`${command}\n`)
    return text(socket)
  }
  await until(async () => {
    if (haproxy.ended) throw new Error(`haproxy did not start: ${log()}`)
    return admin('show info').then(
      () => true,
      () => false
    )
  }, 'haproxy')
  return {
    log,
    admin,
    /** What it counts of a server of the backend `api`, as in `show stat`. */
    async server(name: string): Promise<Record<string, string>> {
      const [head = '', ...lines] = (await admin('show stat')).slice(2).split('\n')
      const line = lines.find(line => line.startsWith(`api,${name},`)) ?? ''
      const values = line.split(',')
      return Object.fromEntries(head.split(',').map((column, i) => [column, values[i] ?? '']))
    }
  }
}
