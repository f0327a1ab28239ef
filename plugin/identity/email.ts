import { domainToASCII, domainToUnicode } from 'node:url'
import { foldAt, mainDomain } from './mail-providers.js'
import { memoize } from './memoize.js'

/** Octets, RFC 5321 section 4.5.3.1: the local part, and the path without its angle brackets. */
const MAX_LOCAL = 64
const MAX_ADDRESS = 254
/** Characters, before anything is looked at: room for an address and the white space around it. */
const MAX_LENGTH = 320

/** RFC 5321 section 4.1.2, with the characters beyond ASCII of RFC 6531 section 3.3. */
const ATOM = /^[\w!#$%&'*+/=?^`{|}~\u0080-\u{10ffff}-]+$/u
const QUOTED_STRING = /^"((?:[ !#-[\]-~\u0080-\u{10ffff}]|\\[ -~])*)"$/u
/** Most addresses: the local part needs no folding, unless the domain's provider asks for some; the domain may. */
const PLAIN = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*@[!-?A-~]*$/
/** Controls, invisible and unassigned characters, line separators, lone surrogates. */
const NEVER = /[\p{C}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]/u
const JOINERS = /[\u200c\u200d]/g
/** Labels of letters, digits and hyphens (RFC 1123 section 2.1), 63 octets each. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
/** All of ASCII but letters, digits, hyphen and dot. */
const NO_DOMAIN = /[\0-,/:-@[-`{-\x7f]/

/**
 * One form for all spellings of a mail address, for limiting only: a message goes to the address as given. `undefined`
 * where the text is not exactly one address (a display name, comment, list or address literal is none).
 *
 * Folded: white space around it, case, compatibility characters (NFKC), quotes that are not needed, `+tag`, the domain
 * to punycode without its final dot; and addresses that large providers deliver to one mailbox, such as with Gmail's
 * dots.
 */
export function canonicalEmail(text: string): string | undefined {
  if (typeof text !== 'string') return undefined
  return text.length > MAX_LENGTH ? undefined : (plainEmail(text) ?? spelled(text))
}

const domains = memoize(canonicalDomain)
const spelled = memoize(readEmail)

/** The form of an address that matches `PLAIN`, which is computed faster than it is remembered. */
function plainEmail(text: string): string | undefined {
  if (!PLAIN.test(text)) return undefined
  const at = text.indexOf('@')
  const written = text.slice(at + 1)
  const domain = domains(written)
  if (domain === undefined || !fits(at, domain)) return undefined
  const fold = foldAt(domain)
  if (fold === undefined && domain === written) return text
  const local = text.slice(0, at)
  const mailbox = fold?.(local) ?? local
  return mailbox === '' ? undefined : `${mailbox}@${domain}`
}

function readEmail(text: string): string | undefined {
  const address = text.trim()
  const at = address.lastIndexOf('@')
  const [local, name] = [address.slice(0, at), address.slice(at + 1)]
  // Some domains have joiners; the reading of the domain checks where they stand (RFC 5892, appendix A).
  if (NEVER.test(local) || NEVER.test(name.replace(JOINERS, ''))) return undefined
  const domain = domains(name)
  if (at < 1 || domain === undefined || !fits(Buffer.byteLength(local), domain)) return undefined
  const mailbox = canonicalLocal(local, domain)
  return mailbox !== undefined && fits(Buffer.byteLength(mailbox), domain)
    ? `${mailbox}@${domain}`
    : undefined
}

/** Whether an address is not too long. @param octets length of the local part */
function fits(octets: number, domain: string): boolean {
  return octets <= MAX_LOCAL && octets + 1 + domain.length <= MAX_ADDRESS
}

/** Node reads the domain like the host of a URL, so whatever else a URL may hold is refused before. */
function canonicalDomain(text: string): string | undefined {
  if (NO_DOMAIN.test(text.normalize())) return undefined
  const domain = domainToASCII(text).replace(/\.$/, '')
  const labels = domain.split('.')
  const isIp = /\.\d+$/.test(domain)
  // From Node 24 on, `domainToASCII` leaves a label of invalid punycode as it is.
  const broken = domain.includes('xn--') && /(?:^|\.)xn--/.test(domainToUnicode(domain))
  if (broken || isIp || labels.length < 2 || !labels.every(label => LABEL.test(label))) return undefined
  return mainDomain(domain)
}

function canonicalLocal(text: string, domain: string): string | undefined {
  const folded = foldCase(text)
  const quoted = QUOTED_STRING.exec(folded)?.[1]?.replace(/\\(.)/g, '$1')
  if (quoted === undefined && !isDotString(folded)) return undefined
  const untagged = (quoted ?? folded).replace(/\+.*/u, '')
  // Where a dot was removed, a letter and an accent may meet, and compose.
  const mailbox = (foldAt(domain)?.(untagged) ?? untagged).normalize('NFKC')
  if (mailbox === '') return undefined
  // Without quotes, white space at the start (U+1680, which NFKC leaves) would be read as space around the address.
  const bare = isDotString(mailbox) && mailbox === mailbox.trimStart()
  return bare ? mailbox : `"${mailbox.replace(/["\\]/g, '\\$&')}"`
}

function isDotString(text: string): boolean {
  return text.split('.').every(atom => ATOM.test(atom))
}

/**
 * Folds case and compatibility characters. NFKC runs twice, since lower case may bring letters that compose. Both small
 * sigmas become one, since the place in a word decides which one is written.
 */
function foldCase(text: string): string {
  return text.normalize('NFKC').toLowerCase().replaceAll('ς', 'σ').normalize('NFKC')
}
