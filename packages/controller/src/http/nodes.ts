// /api/nodes: the fleet, for administrators.
import { nodeRoutes as routes, type NodeId, type NodeView } from '@muster/protocol'
import { checkOverrides, effectiveLabels, patchLabels, replaceLabels, type Overrides } from '../nodes/labels.ts'
import { viewIntent } from '../nodes/intent-view.ts'
import { historyIntervalSeconds, type NodeHistory } from '../nodes/history.ts'
import { applyVramBudget, viewOf } from '../nodes/view.ts'
import type { IntentStore } from '../store/intents.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { nameOf } from '../auth/principal-name.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, notFound } from './http-error.ts'

const noSuchNode = (id: NodeId): HttpError => notFound(`there is no node ${id}; GET /api/nodes lists them`)

export interface NodeEndpointDeps {
  readonly nodes: NodeStore
  readonly intents: IntentStore
  readonly history: NodeHistory
}

export function nodeEndpoints({ nodes, intents, history }: NodeEndpointDeps): Endpoint[] {
  async function get(id: NodeId): Promise<NodeRecord> {
    const node = await nodes.find(id)
    if (node === null) throw noSuchNode(id)
    return node
  }
  const view = async (id: NodeId): Promise<NodeView> => viewOf(await get(id))

  async function editLabels(id: NodeId, edit: (node: NodeRecord) => Overrides): Promise<{ labels: Record<string, string> }> {
    let refusal: string | null = null
    const node = await nodes.editLabels(id, (before) => {
      const edited = checkOverrides(before, edit(before))
      if (edited.outcome === 'ok') return edited.overrides
      refusal = edited.message
      return null
    })
    if (node === null) throw noSuchNode(id)
    if (refusal !== null) throw new HttpError(400, 'invalid', refusal)
    return { labels: effectiveLabels(node) }
  }

  return [
    endpoint(routes.list, async () => ({ nodes: (await nodes.list()).map(viewOf) })),
    endpoint(routes.get, async ({ params }) => await view(params.id)),
    endpoint(routes.approve, async ({ params, principal }) => {
      await get(params.id)
      await nodes.approve(params.id, nameOf(principal))
      return await view(params.id)
    }),
    endpoint(routes.drain, async ({ params }) => {
      await nodes.setDraining(params.id, true)
      return await view(params.id)
    }),
    endpoint(routes.resume, async ({ params }) => {
      await nodes.setDraining(params.id, false)
      return await view(params.id)
    }),
    endpoint(routes.remove, async ({ params }) => {
      // The worker learns it from its session, which is waiting for news of this very row.
      if (!(await nodes.remove(params.id))) throw noSuchNode(params.id)
    }),
    endpoint(routes.labels, async ({ params }) => ({ labels: effectiveLabels(await get(params.id)) })),
    endpoint(routes.putLabels, async ({ params, body }) => await editLabels(params.id, (node) => replaceLabels(node, body))),
    endpoint(routes.patchLabels, async ({ params, body }) => await editLabels(params.id, (node) => patchLabels(node, body))),
    endpoint(routes.deleteLabel, async ({ params }) => {
      if (!Object.hasOwn(effectiveLabels(await get(params.id)), params.key)) throw notFound(`node ${params.id} has no label ${params.key}`)
      return await editLabels(params.id, (node) => patchLabels(node, { [params.key]: null }))
    }),
    endpoint(routes.putVramBudget, async ({ params, body }) => {
      await nodes.setVramBudget(params.id, body.value)
      return await view(params.id)
    }),
    endpoint(routes.deleteVramBudget, async ({ params }) => {
      await nodes.setVramBudget(params.id, null)
      return await view(params.id)
    }),
    ...backendsOfNode(get, intents),
    historyOfNode(get, history),
  ]
}

function backendsOfNode(get: (id: NodeId) => Promise<NodeRecord>, intents: IntentStore): Endpoint[] {
  return [
    endpoint(routes.backends, async ({ params }) => {
      const node = await get(params.id)
      return { backends: node.nodeType === 'agent' ? [] : [...node.inventory] }
    }),
    endpoint(routes.intents, async ({ params }) => {
      const node = await get(params.id)
      const { rows } = await intents.listOfNode(params.id)
      return { intents: node.nodeType === 'agent' ? [] : rows.map((row) => viewIntent(row, node)) }
    }),
  ]
}

/** By today's budget, as everything else that is shown of its memory. */
function historyOfNode(get: (id: NodeId) => Promise<NodeRecord>, history: NodeHistory): Endpoint {
  return endpoint(routes.history, async ({ params }) => {
    const { resources, vramBudget } = await get(params.id)
    const samples = history.read(params.id).map((sample) => {
      const { available_vram } = applyVramBudget({ ...resources, available_vram: sample.available_vram }, vramBudget)
      return { ...sample, available_vram }
    })
    return { interval_seconds: historyIntervalSeconds, samples }
  })
}
