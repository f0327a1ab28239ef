import { spawnSync } from 'node:child_process'
import t, { type Test } from 'tap'
import type { AuditEvent } from '../../app/audit/event.js'
import { blocksOf, read } from '../docs/blocks.js'
import { heardOn } from '../helper/channel.js'
import { startCluster } from '../helper/cluster.js'
import { startRedis } from '../helper/redis.js'
import { without } from '../helper/without.js'
import { ask } from './captcha.js'
import { putOnList, startApp } from './helper.js'

const page = 'docs/runbook.md'
const [, forgetLimits = ''] = /`(redis-cli [^`]*sl:secret)`/.exec(read(page)) ?? []
const forgetLists = blocksOf(page).find(({ use }) => use === 'lists')?.text ?? ''
const skip = without('redis-cli')

/** Where an instance runs, and the ports at which an operator may ask. */
const places = {
  async redis(t: Test) {
    const { url, port } = await startRedis(t)
    return { REDIS_URL: url, ports: [port] }
  },
  async cluster(t: Test) {
    const { nodes } = await startCluster(t)
    return { REDIS_URL: nodes.map(({ url }) => url).join(','), ports: nodes.map(({ port }) => port) }
  }
}

const [former, next, other] = ['the secret of before', 'the secret that follows', 'yet another secret']

for (const [name, open] of Object.entries(places)) {
  t.test(`secrets can be changed as docs/runbook.md says (${name})`, { skip }, async t => {
    const { REDIS_URL, ports } = await open(t)
    const heard = heardOn<AuditEvent>(t, 'verification-api:audit')
    const start = (env: NodeJS.ProcessEnv) => startApp(t, { REDIS_URL, ...env }, {})
    const run = (command: string, port: number) => {
      const there = command.replaceAll('redis-cli', `redis-cli -p ${port}`)
      return spawnSync('sh', ['-c', there], { encoding: 'utf8' })
    }

    for (const [i, port] of ports.entries()) {
      const phone = `1380013800${i}`
      const one = await start({ LIMIT_SECRET: former })
      await putOnList(one, 'blocked', `+86${phone}`)
      t.match(await ask(one, { phone }), { status: 403 })
      await one.close()

      const changed = { LIMIT_SECRET: next, RECIPIENT_SECRET: former }
      await t.rejects(start(changed), { code: 'FST_SEND_LIMIT_SECRET_MISMATCH' })
      t.match(run(forgetLimits, port), { status: 0, stderr: '' })
      const two = await start(changed)
      t.match(await ask(two, { phone }), { status: 403 }, 'the recipient is blocked as before')
      const [before, now] = heard.splice(0)
      t.match(
        now,
        { recipientHash: before?.recipientHash, network: before?.network },
        'the trail names the recipient as before'
      )
      await two.close()

      await t.rejects(start({ ...changed, RECIPIENT_SECRET: other }), /RECIPIENT_SECRET/)
      t.match(run(forgetLists, port), { status: 0, stderr: '' })
      const three = await start({ ...changed, RECIPIENT_SECRET: other })
      t.match(await ask(three, { phone }), { status: 202 }, 'nobody is blocked')
      await three.close()
      for (const command of [forgetLimits, forgetLists]) run(command, port)
      heard.length = 0
    }
  })
}
