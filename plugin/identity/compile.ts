import { conform } from '../conform.js'
import { DigestSchema, type KeyPart, keyParts } from '../key.js'
import { wrongOption } from '../mistakes.js'
import { contentPart } from './content.js'
import { canonicalEmail } from './email.js'
import type { CompiledPart, KeyOptions } from './part.js'
import { addressOf, compilePath } from './path.js'
import { canonicalPhone } from './phone.js'
import { functionPart, ipPart, regionAt, scalarPart } from './scalar.js'

const right =
  'Write "ip", "all", { phone, email, ip, value or digest: path }, a function, or a list of these.'

/** @throws OptionError with the path of the mistake */
export function compilePart(part: KeyPart, options: KeyOptions, at: string): CompiledPart {
  if (part === 'ip') return ipPart('ip', addressOf, options)
  if (part === 'all') return everybody
  if (typeof part === 'function') return functionPart(part, options.called, at)
  if (typeof part !== 'object' || part === null) throw wrongOption(at, part, right)
  if ('digest' in part) {
    conform(DigestSchema, part, at)
    return compileContent(part.digest, options, `${at}.digest`)
  }
  const [kind, other] = (Object.keys(keyParts) as (keyof typeof keyParts)[]).filter(name => name in part)
  if (kind === undefined) throw wrongOption(at, part, right)
  if (other !== undefined)
    throw wrongOption(at, part, 'A part is of one kind; for several write a list of parts.')
  conform<unknown>(keyParts[kind], part, at)
  const label = (part as Record<typeof kind, string>)[kind]
  const read = compilePath(label, `${at}.${kind}`)
  if ('ip' in part) {
    const { ipv4Prefix = options.ipv4Prefix, ipv6Prefix = options.ipv6Prefix } = part
    return ipPart(label, read, { ipv4Prefix, ipv6Prefix })
  }
  if ('phone' in part) {
    const region = regionAt(part.region ?? options.region, `${at}.region`)
    return scalarPart(kind, label, read, text => canonicalPhone(text, region))
  }
  return scalarPart(kind, label, read, kind === 'email' ? canonicalEmail : String)
}

function compileContent(items: readonly unknown[], options: KeyOptions, at: string): CompiledPart {
  return contentPart(
    [...items].map((item, i) => {
      const where = `${at}[${i}]`
      if (typeof item === 'string' && item !== 'ip')
        return { kind: 'value', label: item, read: compilePath(item, where) }
      if (typeof item === 'function' || (typeof item === 'object' && item !== null && 'digest' in item)) {
        throw wrongOption(where, item, 'Write a path, or a part such as { phone: "body.phone" }.')
      }
      return compilePart(item as KeyPart, options, where)
    })
  )
}

/** One identity for all requests, whatever their values. */
const everybody: CompiledPart = {
  kind: 'all',
  label: 'all',
  read: () => 'all',
  canonical: () => '',
  list(values, at) {
    throw wrongOption(at, values, 'Everybody counts as one here; allow or block in a rule keyed otherwise.')
  }
}
