/** The nodes of REDIS_URL. */
export const redisUrls = (text: string): string[] => text.split(',').map(url => url.trim())

export function isUrl(text: string, protocols: readonly string[]): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, pathname, username, password, hash } = new URL(text)
  // A path of Redis is the number of a database.
  const lost = protocol.startsWith('redis') && !/^(\/\d*)?$/.test(pathname)
  return (
    protocols.includes(protocol) && hostname !== '' && hash === '' && isEscaped(username + password) && !lost
  )
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
