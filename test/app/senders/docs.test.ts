import { readFileSync } from 'node:fs'
import t from 'tap'
import { ConfigSchema } from '../../../app/config-schema.js'
import { providers } from '../../../app/senders/providers.js'
import { SenderVariables } from '../../../app/senders/variables.js'
import { ask } from '../captcha.js'
import { places } from '../helper.js'
import { provider } from '../provider.js'

const page = readFileSync('docs/senders.md', 'utf8')
const rows = [...page.matchAll(/^\| `([A-Z_]+)` \| ([a-z]*) ?\| (.*) \|$/gm)].map(
  ([, name = '', by = '', meaning = '']) => ({ name, by, meaning })
)

t.test('docs/senders.md has a line for every variable, and what it says is so', async t => {
  t.same(rows.map(({ name }) => name).toSorted(), Object.keys(SenderVariables).toSorted())
  for (const { name, by, meaning } of rows) {
    const schema = ConfigSchema.properties[name as keyof typeof SenderVariables] as { writeOnly?: boolean }
    const needing = Object.keys(providers).filter(each => providers[each]?.needs.some(need => need === name))
    t.same(needing, by === '' ? [] : [by], `${name} is needed`)
    const secret = schema.writeOnly === true
    t.equal(/a secret$/.test(meaning), secret, `${name} is a secret`)
  }
})

t.test('docs/senders.md has a line for every sender, with its channels and packages', async t => {
  for (const [name, { packages = '', channels }] of Object.entries(providers)) {
    const [, said, install] =
      new RegExp(`^\\| \`${name}\` \\| (\\w+) \\| .* \\| ?(.*) ?\\|$`, 'm').exec(page) ?? []
    t.equal(said, channels.length === 2 ? 'both' : channels[0] === 'sms' ? 'SMS' : 'mail', name)
    t.equal(install?.trim().replaceAll('`', ''), packages, name)
    t.match(
      page,
      new RegExp(`^\\| ${name} \\|.*\\|.*\\|.*\\|.*\\|$`, 'm'),
      `which answers of ${name} give which outcome`
    )
  }
})

t.test('the message of a webhook in docs/senders.md is one that is sent', async t => {
  const { data } = JSON.parse(/^\{"type"[\s\S]*?(?=^```)/m.exec(page)?.[0] ?? '{}')
  const sms = provider()
  const app = await (await places.memory(t)).start({}, { senders: { sms } })
  await ask(app, { purpose: 'login', locale: 'zh' })
  const [sent] = sms.messages
  const { code = '' } = sent?.params ?? {}
  t.same({ ...data, text: sent?.text, params: { ...data.params, code } }, sent)
})
