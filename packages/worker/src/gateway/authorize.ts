// Checks that the caller holds a controller token for this scope. Until then only the head of a request is read.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { checkGatewayToken } from '@muster/host'
import type { NodeId } from '@muster/protocol'
import { refuse } from './respond.ts'

/** This node, and the secret that it shares with the controllers. */
export type GatewayIdentity = Readonly<{ nodeId: NodeId; secret: string }>

/** The controller that sent the request. Null: the request was refused. */
export type Authorize = (request: IncomingMessage, response: ServerResponse, scope: string) => string | null

/** Only valid tokens are cached, so that guesses evict none; there is one per replica, file and controller. */
const maxTokens = 4096

export function createAuthorize(identity: () => GatewayIdentity | null): Authorize {
  let checkedWith: GatewayIdentity | null = null
  const known = new Map<string, string>()

  function controllerOf(token: string, scope: string, now: GatewayIdentity): string | null {
    if (now.secret !== checkedWith?.secret || now.nodeId !== checkedWith.nodeId) known.clear()
    checkedWith = now
    const key = `${scope}\n${token}`
    const before = known.get(key)
    if (before !== undefined) return before
    const controller = checkGatewayToken(token, { ...now, scope })
    if (controller === null) return null
    if (known.size >= maxTokens) known.clear()
    known.set(key, controller)
    return controller
  }

  return (request, response, scope) => {
    const now = identity()
    if (now === null) {
      refuse(response, 503, 'unavailable', 'this worker has no gateway secret yet; it waits for a controller')
      return null
    }
    const token = /^Bearer (\S{1,256})$/i.exec(request.headers.authorization ?? '')?.[1]
    const controller = token === undefined ? null : controllerOf(token, scope, now)
    if (controller === null) refuse(response, 401, 'unauthorized', 'a token of a controller of this cluster for this scope is required')
    return controller
  }
}
