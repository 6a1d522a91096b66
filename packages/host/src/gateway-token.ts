// The token by which a worker's gateway recognizes requests of a controller: v1.<controller>.<mac>.
import { createHmac, timingSafeEqual } from 'node:crypto'

/** A scope is one of protocol's `gatewayScope`. */
export type GatewayGrant = Readonly<{ secret: string; nodeId: string; scope: string }>

export function mintGatewayToken({ controller, ...grant }: GatewayGrant & Readonly<{ controller: string }>): string {
  return `v1.${controller}.${macOf(grant, controller).toString('base64url')}`
}

/** The controller that made the token; null when the token is not for this grant. */
export function checkGatewayToken(token: string, grant: GatewayGrant): string | null {
  const [, controller = '', mac = ''] = /^v1\.([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]{43})$/.exec(token) ?? []
  if (mac === '') return null
  const given = Buffer.from(mac, 'base64url')
  const want = macOf(grant, controller)
  return given.length === want.length && timingSafeEqual(given, want) ? controller : null
}

/** No part can hold a line feed, so no two grants have the same text. */
const macOf = ({ secret, nodeId, scope }: GatewayGrant, controller: string): Buffer =>
  createHmac('sha256', secret).update(`muster-gateway\n${nodeId}\n${scope}\n${controller}`).digest()
