/** The URLs in REDIS_URL: that of one Redis, or those of nodes of a cluster, or of sentinels. */
export const redisUrls = (text: string): string[] => text.split(',').map(url => url.trim())

/** Whether a text is a URL of one of these protocols that its client understands as it was meant. */
export function isUrl(text: string, protocols: readonly string[]): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, pathname, search, username, password, hash } = new URL(text)
  if (!protocols.includes(protocol) || hostname === '' || hash !== '' || !isEscaped(username + password))
    return false
  if (protocol.startsWith('http')) return true
  // A client would take a query for options of its own. A "/" or "?" in a password makes its user name the host, and
  // what comes before that sign the port. A path of Redis is the number of a database.
  return search === '' && (protocol.startsWith('redis') ? /^(\/\d*)?$/ : /^\/?$/).test(pathname)
}

/** Whether Redis and mail clients can decode a name or password: its escapes must be valid UTF-8. */
function isEscaped(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
