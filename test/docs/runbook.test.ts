import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ConfigSchema } from '../../app/config-schema.js'
import { folderOf } from '../helper/folder.js'
import { without } from '../helper/without.js'
import { blocksOf, read } from './blocks.js'

const blockOf = (page: string, use: string) => {
  const block = blocksOf(page).find(each => each.use === use || each.needs.includes(use))
  return block?.text ?? ''
}
const skip = without('jq') || without('awk')

t.test(
  'the command of the runbook sums up the cost of messages by account, purpose and country',
  { skip },
  async t => {
    const events = blockOf('docs/operation.md', 'audit').trim().split('\n')
    const [sent = {}] = events.map(line => JSON.parse(line) as Record<string, unknown>)
    const more = [
      { ...sent, outcome: 'unknown' },
      { ...sent, outcome: 'failed', cost: undefined },
      { ...sent, time: '2026-02-28T00:00:00.000Z' },
      { ...sent, event: 'verification', outcome: 'verified' },
      { ...sent, country: 'AZ', cost: undefined },
      { ...sent, channel: 'mail', country: undefined, purpose: undefined, template: 'welcome' }
    ]
    const file = join(folderOf(t), 'trail')
    writeFileSync(
      file,
      [...events, '{"audit":1,"time":"2026-03-0', ...more.map(event => JSON.stringify(event))]
        .map(line => `${line}\n`)
        .join('')
    )
    const command = blockOf('docs/runbook.md', 'trail').replace('T02:00', 'T00:00').replace('TRAIL', file)
    const { stdout, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' })
    t.equal(stderr, '')
    t.same(stdout.trim().split('\n').sort(), [
      '1 0 0 shop login AZ',
      '1 0 0.045 shop welcome mail',
      '2 1 0.09 shop login CN'
    ])
  }
)

t.test(
  'the command of the runbook sums up verified codes, their delay and cost by sender',
  { skip },
  async t => {
    const [event = {}] = blockOf('docs/operation.md', 'audit')
      .split('\n')
      .slice(0, 1)
      .map(line => JSON.parse(line))
    const sent = { ...event, time: '2026-03-01T03:00:00.000Z' }
    const verified = { ...sent, event: 'verification', outcome: 'verified', cost: undefined }
    const other = { ...sent, sender: 'twilio', recipientHash: 'AAAAAAAAAAAAAAAAAAAAAA' }
    // Not in order, as from two instances.
    const lines = [
      JSON.stringify({ ...verified, time: '2026-03-01T03:00:20.500Z' }),
      JSON.stringify(sent),
      JSON.stringify({ ...sent, outcome: 'failed' }),
      JSON.stringify({ ...sent, time: '2026-03-01T02:59:00.000Z', sender: 'twilio' }),
      '{"audit":1,"time":"2026-03-0',
      JSON.stringify(other),
      JSON.stringify({ ...verified, recipientHash: 'BBBBBBBBBBBBBBBBBBBBBB' })
    ]
    const file = join(folderOf(t), 'trail')
    writeFileSync(file, lines.map(line => `${line}\n`).join(''))
    const command = blockOf('docs/runbook.md', 'senders').replace('TRAIL', file)
    const { stdout, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' })
    t.equal(stderr, '')
    t.same(stdout.trim().split('\n').sort(), ['aliyun CN 1 1 20 0.045', 'twilio CN 2 0 - -'])
  }
)

t.test('the command of the runbook counts requests for countries that are not served', { skip }, async t => {
  const event = { audit: 1, event: 'refusal', outcome: 'not-served', account: 'shop', country: 'AZ' }
  const lines = [{ ...event, country: 'UZ' }, event, event, { ...event, outcome: 'exceeded' }]
  const file = join(folderOf(t), 'trail')
  writeFileSync(file, lines.map(line => `${JSON.stringify(line)}\n`).join(''))
  const command = blockOf('docs/runbook.md', 'unserved').replace('TRAIL', file)
  const { stdout, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' })
  t.equal(stderr, '')
  t.same(stdout.trim().split(/\s*\n\s*/), ['2 AZ shop', '1 UZ shop'])
})

t.test('the command of the runbook finds a recipient in the trail by its hash', async t => {
  const [, command = ''] = /`(zgrep .*HASH TRAIL\*)`/.exec(readFileSync('docs/runbook.md', 'utf8')) ?? []
  const hash = '-trg0q3VbTzbH-2J2kaApQ'
  const file = join(folderOf(t), 'trail')
  writeFileSync(file, `${JSON.stringify({ recipientHash: hash })}\n`)
  const { stdout } = spawnSync('sh', ['-c', command.replace('HASH', hash).replace('TRAIL', file)], {
    encoding: 'utf8'
  })
  t.match(stdout, hash)
})

t.test('the runbook says how to change each secret of the configuration', async t => {
  const [, section = ''] = read('docs/runbook.md').split('\n## Changing a secret\n')
  const named = [...section.matchAll(/^\| ([^|]+) \|/gm)].flatMap(
    ([, cell = '']) => cell.match(/[A-Z][A-Z_]+…?/g) ?? []
  )
  // Of an account at Twilio, and as lasting. It is hidden, since the value may be the token by mistake.
  const { TWILIO_ACCOUNT_SID, ...variables } = ConfigSchema.properties
  for (const [name, schema] of Object.entries(variables)) {
    if (!('writeOnly' in schema)) continue
    t.ok(
      named.some(each => name === each || (each.endsWith('…') && name.startsWith(each.slice(0, -1)))),
      name
    )
  }
})
