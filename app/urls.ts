/** The nodes of REDIS_URL. */
export const redisUrls = (text: string): string[] => text.split(',').map(url => url.trim())

export function isUrl(text: string, protocols: readonly string[]): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, pathname, search, username, password, hash } = new URL(text)
  if (!protocols.includes(protocol) || hostname === '' || hash !== '' || !isEscaped(username + password))
    return false
  if (protocol.startsWith('http')) return true
  // A client would take what stands in a query for options of its own, and the host for a port behind a password with a
  // "/" or a "?" in it. A path of Redis is the number of a database.
  return search === '' && (protocol.startsWith('redis') ? /^(\/\d*)?$/ : /^\/?$/).test(pathname)
}

/** As Redis and mail clients take the name and the password: with escapes of UTF-8. */
function isEscaped(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
