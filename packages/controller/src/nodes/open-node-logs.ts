// Opens the logs of a node's models through its gateway.
import type { Readable } from 'node:stream'
import { mintGatewayToken } from '@muster/host'
import { failureOf, FleetError, gatewayPaths, gatewayScope, type ModelName, type NodeId } from '@muster/protocol'
import type { Gateways } from '../routing/gateways.ts'
import type { RouteStore } from '../store/routes.ts'

export interface LogsDeps {
  readonly routes: Pick<RouteStore, 'gatewayOf'>
  readonly gateways: Gateways
  readonly controllerId: string
}
export interface LogsQuestion {
  readonly model: ModelName | undefined
  readonly follow: boolean
  readonly signal: AbortSignal
}
export type OpenNodeLogs = ReturnType<typeof createOpenNodeLogs>

export function createOpenNodeLogs({ routes, gateways, controllerId }: LogsDeps) {
  /** Null: no such node. 'none': an agent, which runs no models. */
  return async (id: NodeId, { model, follow, signal }: LogsQuestion): Promise<Readable | 'none' | null> => {
    const gateway = await routes.gatewayOf(id)
    if (gateway === null) return null
    if (gateway.nodeType === 'agent') return 'none'
    const unavailable = (why: string, cause?: unknown): FleetError =>
      new FleetError(
        { code: 'unavailable', retry: 'backoff', message: `cannot read the logs of node ${gateway.name} from its gateway: ${why}` },
        { cause },
      )
    if (!URL.canParse(gateway.gatewayUrl)) throw unavailable('it has no address that controllers could reach')
    const { origin, pathname } = new URL(gateway.gatewayUrl)
    const query = new URLSearchParams({ follow: String(follow), ...(model === undefined ? {} : { model }) })
    const secret = gateway.gatewaySecret.reveal()
    const token = mintGatewayToken({ secret, nodeId: id, scope: gatewayScope.logs, controller: controllerId })
    try {
      const answer = await gateways.at(origin).request({
        method: 'GET',
        path: `${pathname.replace(/\/+$/, '')}${gatewayPaths.logs}?${query.toString()}`,
        headers: { authorization: `Bearer ${token}` },
        signal,
        // Nothing may be written for hours.
        bodyTimeout: 0,
      })
      if (answer.statusCode === 200) return answer.body
      await answer.body.dump()
      throw unavailable(`it answered ${answer.statusCode}`)
    } catch (error) {
      throw error instanceof FleetError ? error : unavailable(failureOf(error).message, error)
    }
  }
}
