// Whether whoever knocks was sent by a controller, for this very thing. Before it is known, nothing of a request but its
// head is read.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { checkGatewayToken } from '@muster/host'
import type { NodeId } from '@muster/protocol'
import { refuse } from './respond.ts'

/** Who this worker is, and what only it and the controllers know. */
export type GatewayIdentity = Readonly<{ nodeId: NodeId; secret: string }>

/** Null: it is not let in, and has been told so. Otherwise the controller that sent it. */
export type Authorise = (request: IncomingMessage, response: ServerResponse, scope: string) => string | null

/** Good tokens only, so that no guesses drive them out; there is one for each replica, file and controller. */
const mostKept = 4096

export function createAuthorise(identity: () => GatewayIdentity | null): Authorise {
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
    if (known.size >= mostKept) known.clear()
    known.set(key, controller)
    return controller
  }

  return (request, response, scope) => {
    const now = identity()
    if (now === null) {
      refuse(response, 503, 'unavailable', 'this worker has not been told the secret of its gateway yet; it waits for a controller')
      return null
    }
    const token = /^Bearer (\S{1,256})$/i.exec(request.headers.authorization ?? '')?.[1]
    const controller = token === undefined ? null : controllerOf(token, scope, now)
    if (controller === null)
      refuse(response, 401, 'unauthorized', 'this needs a token of a controller of this cluster, made for exactly this')
    return controller
  }
}
