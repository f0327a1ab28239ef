import { createHmac } from 'node:crypto'
import { iso } from '../clock.js'
import { sha256 } from '../sha256.js'

interface AccessKey {
  id: string
  secret: string
}

/** A call of an Alibaba Cloud API in RPC style: all parameters are in the query, and the body is empty. */
interface Call {
  host: string
  action: string
  version: string
  query: Readonly<Record<string, string>>
  /** When the call is made, in milliseconds since the epoch. */
  at: number
  /** Unique to the call. */
  nonce: string
}

const ALGORITHM = 'ACS3-HMAC-SHA256'

const NO_BODY = sha256('')

/**
 * Signs a call by version 3 of Alibaba Cloud's signature
 * (help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature).
 * @returns the query of the call, and the headers to send with it
 */
export function signed({ host, action, version, query, at, nonce }: Call, key: AccessKey) {
  const search = Object.keys(query)
    .sort()
    .map(name => `${encode(name)}=${encode(query[name] as string)}`)
    .join('&')
  // Sorted by name, as the signature requires.
  const headers = {
    host,
    'x-acs-action': action,
    'x-acs-content-sha256': NO_BODY,
    'x-acs-date': iso(at).replace(/\.\d+/, ''),
    'x-acs-signature-nonce': nonce,
    'x-acs-version': version
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`)
  const names = Object.keys(headers).join(';')
  const canonical = ['POST', '/', search, lines.join(''), names, NO_BODY].join('\n')
  const signature = createHmac('sha256', key.secret)
    .update(`${ALGORITHM}\n${sha256(canonical)}`)
    .digest('hex')
  const authorization = `${ALGORITHM} Credential=${key.id},SignedHeaders=${names},Signature=${signature}`
  return { search, headers: { ...headers, accept: 'application/json', authorization } }
}

/** Percent-encodes as RFC 3986 says, that is, more characters than `encodeURIComponent` does. */
const encode = (text: string) =>
  encodeURIComponent(text).replace(/[!'()*]/g, char => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
