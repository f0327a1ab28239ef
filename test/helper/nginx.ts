import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { folderOf } from './folder.js'
import type { Teardown } from './teardown.js'
import { until } from './until.js'

// The shell becomes nginx, so that nginx has no children but its workers. The subshell that it leaves behind ends nginx
// when pipe 3 closes: by teardown, or with the test process.
const LAUNCH = `( (read _ <&3; kill -TERM $$) >/dev/null 2>&1 & ); exec nginx "$@" 3<&-`
const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']

interface Nginx {
  /** The file of its site, which a test may change before a reload. */
  site: string
  pidFile: string
  /** Its command line: `nginx ...args -s reload`. */
  args: string[]
}

/** Starts an nginx of this test's own with one site, which listens at a port of 127.0.0.1; stopped in teardown. */
export async function startNginx(t: Teardown, site: string, port: number): Promise<Nginx> {
  const folder = folderOf(t)
  const at = (name: string) => join(folder, name)
  mkdirSync(at('temporary'))
  writeFileSync(at('site.conf'), site)
  writeFileSync(
    at('nginx.conf'),
    `${process.getuid?.() === 0 ? 'user root root;' : ''}
    daemon off;
    worker_processes 2;
    pid ${at('pid')};
    error_log ${at('error.log')};
    events {}
    http {
      ${TEMPORARY.map(name => `${name}_temp_path ${at(`temporary/${name}`)};`).join('\n')}
      include ${at('site.conf')};
    }`
  )
  const args = ['-e', at('error.log'), '-c', at('nginx.conf')]
  const child = spawn('sh', ['-c', LAUNCH, 'nginx', ...args], {
    stdio: ['ignore', 'inherit', 'inherit', 'pipe']
  })
  const gone = once(child, 'exit')
  t.teardown(() => {
    child.stdio[3]?.destroy()
    return gone
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error('nginx did not start')
    const socket = connect(port, '127.0.0.1')
    const there = await once(socket, 'connect').then(
      () => true,
      () => false
    )
    socket.destroy()
    return there
  }, 'nginx')
  return { site: at('site.conf'), pidFile: at('pid'), args }
}
