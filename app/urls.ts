/** The nodes of REDIS_URL. */
export const redisUrls = (text: string): string[] => text.split(',').map(url => url.trim())

export function isUrl(text: string, protocols: readonly string[]): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, pathname, username, password, hash } = new URL(text)
  // Redis and mail clients take the name and the password apart of their escapes.
  const stray = /%(?![0-9a-f]{2})/i.test(username + password)
  // A path of Redis is the number of a database.
  const lost = protocol.startsWith('redis') && !/^(\/\d*)?$/.test(pathname)
  return protocols.includes(protocol) && hostname !== '' && hash === '' && !stray && !lost
}
