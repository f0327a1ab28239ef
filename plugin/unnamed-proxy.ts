import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { compileIpList } from './identity/ip-list.js'
import type { Plan } from './plan.js'

/** How many decisions are looked at. Behind a proxy that is not named, all of them show it. */
const LOOKS = 1_000

/** Of this machine and of private networks (RFC 1918, 3927, 4193, 4291 and 6598). */
const isNear = compileIpList([
  '127.0.0.0/8',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '169.254.0.0/16',
  '100.64.0.0/10',
  '::1',
  'fc00::/7',
  'fe80::/10'
])

/**
 * Warns, once, of a proxy that `trustProxy` does not name: all clients behind it have its address. Only one that is
 * near is recognised, since any client may send the header by which it shows.
 */
export class UnnamedProxy {
  private looks = LOOKS

  constructor(private readonly log: FastifyBaseLogger) {}

  /** Looks at a request on which the plan has decided. */
  see({ byAddress }: Plan, request: FastifyRequest): void {
    if (this.looks === 0 || byAddress.length === 0) return
    this.looks--
    if (!request.headers['x-forwarded-for']) return
    // Undefined where the connection is gone, over HTTP/2 also the socket.
    const address = (request.raw as { socket?: FastifyRequest['socket'] }).socket?.remoteAddress
    if (address === undefined || !isNear(address)) return
    // `ip` would not tell: behind a proxy that is named, it may be the proxy's own address.
    if (request.ips !== undefined && request.ips.length > 1) return
    this.looks = 0
    this.log.warn(
      `trustProxy does not name ${address}, which sends X-Forwarded-For: if it is a proxy, all clients behind it count as one for the rules ${byAddress.join(', ')}`
    )
  }
}
