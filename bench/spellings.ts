// What does it cost to find out who is meant, by kind of key and by spelling?
// npm run bench -- spellings [--quick] [--json file]
import Fastify from 'fastify'
import limitPlugin, { type Rule } from '../plugin/index.js'
import { type Closing, closing } from './lib/closing.js'
import { pin, pinning, SERVER_CORE } from './lib/cores.js'
import { STRICT } from './lib/limiters.js'
import { addressOf, pad } from './lib/policy.js'
import { commandLine, report } from './lib/report.js'
import { interleave, summarize } from './lib/rounds.js'

interface Spelling {
  key: Rule['key']
  /** Each number is another identity. */
  write(i: number): unknown
}

const digits = (i: number, length: number) => pad(i % 10 ** length, length)
const phone = (before: string, length: number, region?: string): Spelling => ({
  key: { phone: 'body.phone', ...(region && { region }) } as Rule['key'],
  write: i => before + digits(i, length)
})
const email = (write: (i: number) => string): Spelling => ({ key: { email: 'body.to' }, write })
const ip = (write: (i: number) => string): Spelling => ({ key: 'ip', write })
const content = (template: string, params: (i: number) => object): Spelling => ({
  key: { digest: [{ phone: 'body.phone' }, 'body.template', 'body.params'] },
  write: i => [`138${digits(i, 8)}`, template, params(i)]
})
const hex = (i: number) => (i & 0xffff).toString(16)

/** What the others are compared with: a value that is not made canonical. */
const TEXT = 'a text as it is'
const spellings: Record<string, Spelling> = {
  [TEXT]: { key: { value: 'body.value' }, write: i => `someone${digits(i, 8)}` },
  'phone: China, 138…': phone('138', 8),
  'phone: China, +86 138…': phone('+86138', 8),
  'phone: China, 86138…': phone('86138', 8),
  'phone: China, with spaces': {
    key: { phone: 'body.phone' },
    write: i => `138 ${digits(i >> 4, 4)} ${digits(i, 4)}`
  },
  'phone: United States, +1 212…': phone('+12125', 6),
  'phone: Canada, +1 416…': phone('+14165', 6),
  'phone: Britain, +44 7911…': phone('+447911', 6),
  'phone: Britain, 07911…': phone('07911', 6, 'GB'),
  'phone: Germany, +49 1512…': phone('+491512', 7),
  'phone: Germany, 01512…': phone('01512', 7, 'DE'),
  'phone: India, 9198…': phone('9198', 6, 'IN'),
  'phone: no valid number': phone('1000', 8),
  'mail: lower case': email(i => `user${i}@example.com`),
  'mail: capitals': email(i => `User${i}@Example.com`),
  'mail: Gmail, dots and a tag': email(i => `u.ser.${i}+news@gmail.com`),
  'mail: 例子.中国': email(i => `user${i}@例子.中国`),
  'address: IPv4': ip(addressOf),
  'address: IPv4 in IPv6': ip(i => `::ffff:${addressOf(i)}`),
  'address: IPv6': ip(i => `2001:db8:${hex(i >> 16)}:${hex(i)}::1`),
  'content: phone, template, code': content('login', i => ({ code: digits(i, 6) })),
  'content: the same, ten params': content('order', i =>
    Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`param${n}`, `${n} 件 "${i}"`]))
  )
}

/** How many decisions are timed at a time. */
const TURN = 500
/** What is counted expires before the next turn, so that no subject finds more keys than another. */
const WINDOW = 1_000

async function open({ key, write }: Spelling) {
  let now = 0
  const clock = { monotonic: () => now, wall: () => Date.now() }
  const app = Fastify()
  const rules = [{ name: 'rule', key, limits: [{ max: 1000, window: WINDOW }] }] as Rule[]
  await app.register(limitPlugin, { rules, ...STRICT, clock, maxKeys: 100_000 })
  await app.ready()
  let next = 0
  return {
    async turn(): Promise<number> {
      now += 2 * WINDOW
      const values = Array.from({ length: TURN }, () => ({ rule: write(next++) }))
      const before = process.cpuUsage()
      for (const keys of values) await app.limit.reserve(keys).catch(invalid)
      const { user, system } = process.cpuUsage(before)
      return (user + system) / TURN
    },
    close: () => app.close()
  }
}

function invalid({ code }: { code?: string }): void {
  if (code !== 'FST_SEND_LIMIT_KEY_INVALID') throw new Error(`not decided: ${code}`)
}

async function bench(all: Closing): Promise<void> {
  const how = commandLine()
  pin(process.pid, SERVER_CORE)
  const opened = new Map<string, Awaited<ReturnType<typeof open>>>()
  for (const [name, spelling] of Object.entries(spellings)) {
    const { turn, close } = await open(spelling)
    all.teardown(close)
    opened.set(name, { turn, close })
  }
  const samples = await interleave([...opened.keys()], how.size, async name => {
    const turns: number[] = []
    for (let i = 0; i < how.size.scale(40, 4); i++) turns.push((await opened.get(name)?.turn()) as number)
    return { µs: summarize(turns).median }
  })
  const others = Object.keys(spellings).filter(name => name !== TEXT)
  report(
    how,
    `processor time of a decision by one rule in memory, each by another value; ${pinning()}`,
    samples,
    others.map(of => ({ name: `${of} ÷ ${TEXT}`, of, by: TEXT, column: 'µs' }))
  )
}

await closing(bench)
