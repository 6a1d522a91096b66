// Replicas of a model or a node, and placement previews.
import { FleetError, modelRoutes, nodeRoutes, type ModelConfig, type ModelName, type PlacementView } from '@muster/protocol'
import type { Placer } from '../placement/placer.ts'
import { viewNowhere, viewPlacement } from '../placement/placement.pure.ts'
import { type ReplicaFacts, viewReplica } from '../replicas/replicas.pure.ts'
import type { LoadStore, WantedModel } from '../store/loads.ts'
import type { NodeStore } from '../store/nodes.ts'
import type { ReplicaStore } from '../store/replicas.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { modelNotFound, nodeNotFound } from './http-error.ts'

export interface ReplicaEndpointDeps {
  readonly loads: Pick<LoadStore, 'model'>
  readonly replicas: ReplicaStore
  readonly nodes: Pick<NodeStore, 'find' | 'list'>
  readonly facts: ReplicaFacts
  readonly place: Placer
}

export function replicaEndpoints({ loads, replicas, nodes, facts, place }: ReplicaEndpointDeps): Endpoint[] {
  const find = async (name: ModelName): Promise<WantedModel> => {
    const model = await loads.model(name)
    if (model === null) throw modelNotFound(name)
    return model
  }
  const placementOf = async (config: ModelConfig): Promise<PlacementView> => {
    try {
      const { placement, model, candidates } = await place({ config, purpose: 'serve', avoid: null, pin: null })
      const victims = await replicas.listByIds(placement.eviction?.victims ?? [])
      return viewPlacement(placement, { memory: model.memory, candidates }, victims)
    } catch (error) {
      if (!(error instanceof FleetError)) throw error
      // A reason that excludes every node, such as an unknown backend, is shown for each of them.
      return viewNowhere(await nodes.list(), error.failure)
    }
  }
  return [
    endpoint(modelRoutes.replicas, async ({ params: { name } }) => {
      await find(name)
      return { replicas: (await replicas.listOfModel(name)).map((replica) => viewReplica(replica, facts)) }
    }),
    endpoint(modelRoutes.placement, async ({ params: { name } }) => await placementOf((await find(name)).config)),
    endpoint(modelRoutes.placementPreview, async ({ params: { name }, body: { scheduling } }) =>
      placementOf({ ...(await find(name)).config, scheduling }),
    ),
    endpoint(nodeRoutes.models, async ({ params: { id } }) => {
      if ((await nodes.find(id)) === null) throw nodeNotFound(id)
      return { replicas: (await replicas.listOfNode(id)).map((replica) => viewReplica(replica, facts)) }
    }),
  ]
}
