// Models with the number of nodes they may run on, which `replicas: all` needs.
import type { ModelName } from '@muster/protocol'
import { mayRunOn } from '../models/view.ts'
import type { LoadStore, WantedModel } from '../store/loads.ts'
import type { NodeStore } from '../store/nodes.ts'

export interface Demands {
  all(): Promise<WantedModel[]>
  of(name: ModelName): Promise<WantedModel | null>
}

export function createDemands({ loads, nodes }: { loads: Pick<LoadStore, 'model' | 'models'>; nodes: Pick<NodeStore, 'list'> }): Demands {
  const counted = async (models: WantedModel[]): Promise<WantedModel[]> => {
    const isEverywhere = ({ config }: WantedModel): boolean => config.scheduling.replicas === 'all'
    if (!models.some(isEverywhere)) return models
    const all = await nodes.list()
    return models.map((model) => {
      const matching = isEverywhere(model) ? all.filter((node) => mayRunOn(node, model.config.scheduling)).length : 0
      return { ...model, matching }
    })
  }
  return {
    all: async () => await counted(await loads.models()),
    async of(name) {
      const model = await loads.model(name)
      return model === null ? null : ((await counted([model]))[0] ?? null)
    },
  }
}
