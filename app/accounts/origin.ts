/** Schemes that browsers know, but whose pages have no origin. */
const PAGELESS = new Set(['file:', 'ftp:', 'ws:', 'wss:'])

/**
 * Whether a text is an origin as browsers write it in the header (RFC 6454, section 6.2): lower case, no default port,
 * no path. Any scheme, since web views of apps and extensions have schemes of their own.
 */
export function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, host } = new URL(text)
  if (host === '' || host.includes('*') || PAGELESS.has(protocol)) return false
  return text === `${protocol}//${host}`
}
