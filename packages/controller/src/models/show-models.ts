// Models as the API and the event stream show them, with the nodes that they could run on.
import { matchesSelector, type ModelView, type Scheduling } from '@muster/protocol'
import { effectiveLabels } from '../nodes/labels.ts'
import { statusOf } from '../nodes/view.ts'
import type { ModelRecord, ModelStore } from '../store/models.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { viewModel } from './view.ts'

export type ShowModels = (models: readonly ModelRecord[]) => Promise<ModelView[]>

export function createShowModels({ nodes, models }: { nodes: Pick<NodeStore, 'list'>; models: Pick<ModelStore, 'listByNames'> }) {
  const show: ShowModels = async (found) => {
    // Only `replicas: all` asks how many nodes there are.
    const isAsked = found.some(({ config }) => config.scheduling.replicas === 'all')
    const all = isAsked ? await nodes.list() : []
    return found.map((model) => viewModel(model, all.filter((node) => mayRunOn(node, model.config.scheduling)).length))
  }
  return {
    show,
    /** For the event stream. */
    read: async (names: readonly string[]): Promise<Map<string, ModelView>> =>
      new Map((await show(await models.listByNames(names))).map((model) => [model.name, model])),
  }
}

/** For `replicas: all`: it gets one there. */
export function mayRunOn(node: NodeRecord, { node_selector: selector }: Scheduling): boolean {
  if (node.nodeType === 'agent' || statusOf(node).status !== 'healthy') return false
  return selector === undefined || matchesSelector(selector, effectiveLabels(node))
}
