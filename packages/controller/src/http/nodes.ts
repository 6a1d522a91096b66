// /api/nodes: the nodes of the fleet, for administrators.
import { Readable, Transform } from 'node:stream'
import { type NodeId, nodeRoutes as routes, type NodeView } from '@muster/protocol'
import { principalName, type PrincipalWatch } from '../auth/principal.ts'
import { historyIntervalSeconds, type NodeHistory } from '../nodes/history.ts'
import { applyVramBudget } from '../nodes/limits.ts'
import { viewIntent, viewOf } from '../nodes/view.ts'
import { checkOverrides, effectiveLabels, type Overrides, patchLabels, replaceLabels } from '../nodes/labels.ts'
import type { OpenNodeLogs } from '../nodes/open-node-logs.ts'
import type { IntentStore } from '../store/intents.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, nodeNotFound, notFound } from './http-error.ts'

export interface NodeEndpointDeps {
  readonly nodes: NodeStore
  readonly intents: IntentStore
  readonly history: NodeHistory
}

export function nodeEndpoints({ nodes, intents, history }: NodeEndpointDeps): Endpoint[] {
  async function get(id: NodeId): Promise<NodeRecord> {
    const node = await nodes.find(id)
    if (node === null) throw nodeNotFound(id)
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
    if (node === null) throw nodeNotFound(id)
    if (refusal !== null) throw new HttpError(400, 'invalid', refusal)
    return { labels: effectiveLabels(node) }
  }

  return [
    endpoint(routes.list, async () => ({ nodes: (await nodes.list()).map(viewOf) })),
    endpoint(routes.get, async ({ params }) => await view(params.id)),
    endpoint(routes.approve, async ({ params, principal }) => {
      await get(params.id)
      await nodes.approve(params.id, principalName(principal))
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
      // The worker is notified by its session, which watches this node.
      if (!(await nodes.remove(params.id))) throw nodeNotFound(params.id)
    }),
    endpoint(routes.labels, async ({ params }) => ({ labels: effectiveLabels(await get(params.id)) })),
    endpoint(routes.putLabels, async ({ params, body }) => await editLabels(params.id, (node) => replaceLabels(node, body))),
    endpoint(routes.patchLabels, async ({ params, body }) => await editLabels(params.id, (node) => patchLabels(node, body))),
    endpoint(routes.deleteLabel, async ({ params }) => {
      if (!Object.hasOwn(effectiveLabels(await get(params.id)), params.key)) throw notFound(`node ${params.id} has no label ${params.key}`)
      return await editLabels(params.id, (node) => patchLabels(node, { [params.key]: null }))
    }),
    ...limitsOfNode(nodes, view),
    ...backendsOfNode(get, intents),
    historyOfNode(get, history),
  ]
}

function limitsOfNode(nodes: NodeStore, view: (id: NodeId) => Promise<NodeView>): Endpoint[] {
  return [
    endpoint(routes.putVramBudget, async ({ params, body }) => {
      await nodes.setVramBudget(params.id, body.value)
      return await view(params.id)
    }),
    endpoint(routes.deleteVramBudget, async ({ params }) => {
      await nodes.setVramBudget(params.id, null)
      return await view(params.id)
    }),
    endpoint(routes.putMaxReplicasPerModel, async ({ params, body }) => {
      await nodes.setMaxReplicasPerModel(params.id, body.value)
      return await view(params.id)
    }),
    endpoint(routes.deleteMaxReplicasPerModel, async ({ params }) => {
      await nodes.setMaxReplicasPerModel(params.id, null)
      return await view(params.id)
    }),
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

/** Applies the current VRAM budget to past samples, as every other view of memory does. */
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

const asText = { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }
const asEvents = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', 'x-accel-buffering': 'no' }
/** A process may write without line ends. */
const maxLineBytes = 64 * 1024

/** Logs as text, or as one event per line with `follow`. */
interface NodeLogDeps {
  readonly openLogs: OpenNodeLogs
  readonly principalWatch: PrincipalWatch
  /** Aborted when the controller accepts no more connections: followed logs end. */
  readonly closing: AbortSignal
}

export function nodeLogEndpoints({ openLogs, principalWatch, closing }: NodeLogDeps): Endpoint[] {
  return [
    endpoint(routes.logs, async ({ params, query, principal, isHead, signal }) => {
      const follow = query.follow === 'true'
      const headers = follow ? asEvents : asText
      if (isHead) return new Response(null, { headers })
      const ending = new AbortController()
      const ends = [signal, ending.signal, ...(follow ? [closing] : [])]
      const opened = await openLogs(params.id, { model: query.model, follow, signal: AbortSignal.any(ends) })
      if (opened === null) throw nodeNotFound(params.id)
      if (opened === 'none') return new Response('', { headers })
      const stopWatch = principalWatch.hold(principal, () => ending.abort())
      opened.once('close', stopWatch)
      // A failure ends the stream; the client needs no more.
      opened.on('error', () => undefined)
      const body = follow ? Readable.from(readUntil(closing, opened), { objectMode: false }).compose(linesAsEvents()) : opened
      return new Response(Readable.toWeb(body) as ReadableStream<Uint8Array>, { headers })
    }),
  ]
}

/** The abort that ends the source is its end, not a failure: the response is complete. */
async function* readUntil(signal: AbortSignal, source: Readable): AsyncGenerator<Buffer> {
  try {
    yield* source
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** A comment first, so that the client knows that the stream is open. */
function linesAsEvents(): Transform {
  let rest = ''
  const decoder = new TextDecoder()
  const eventOf = (line: string): string => `data: ${line.replace(/\r$/, '').replaceAll('\r', ' ')}\n\n`
  return new Transform({
    construct(callback) {
      this.push(': connected\n\n')
      callback()
    },
    transform(chunk: Buffer, _, callback) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > maxLineBytes) {
        lines.push(rest)
        rest = ''
      }
      callback(null, lines.length === 0 ? undefined : lines.map(eventOf).join(''))
    },
    flush(callback) {
      callback(null, rest === '' ? undefined : eventOf(rest))
    },
  })
}
