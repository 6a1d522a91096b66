// Submits operations about a model on chosen nodes. All errors that can be known are found before anything is stored.
import type { ModelConfig, NodeId } from '@muster/protocol'
import { Refused } from '../operations/submit.ts'
import type { Placer } from '../placement/placer.ts'
import type { FileHolderStore } from '../store/inventory.ts'
import type { ModelSubmission, Once, SubmitOutcome } from '../store/model-submissions.ts'
import type { ModelRecord, ModelStore } from '../store/models.ts'
import type { NodeModelStore, NodeOutcome, NodeSubmission } from '../store/node-models.ts'
import type { NodeStore } from '../store/nodes.ts'
import { choosePrefetchNodes, decideNodeLoad, type PrefetchSelection } from './on-nodes.pure.ts'

export interface NodeSubmitDeps {
  readonly models: Pick<ModelStore, 'find'>
  readonly nodes: Pick<NodeStore, 'find' | 'list'>
  readonly holders: Pick<FileHolderStore, 'onlyCopies'>
  readonly place: Placer
  readonly store: NodeModelStore
  /** The model has changed. */
  readonly wake: (model: ModelSubmission['model']) => Promise<void>
}

type Submit<Submission> = (submission: Submission, once: Once) => Promise<SubmitOutcome>

/** Each throws `Refused` when the nodes do not fit. */
export type NodeSubmissions = Readonly<{
  load: Submit<NodeSubmission>
  unload: Submit<NodeSubmission>
  remove: Submit<NodeSubmission>
  prefetch: Submit<ModelSubmission & PrefetchSelection>
}>

export function createNodeSubmissions({ models, nodes, holders, place, store, wake }: NodeSubmitDeps): NodeSubmissions {
  const waking = async (submission: ModelSubmission, outcome: NodeOutcome): Promise<SubmitOutcome> => {
    if (outcome === 'unknown_node') throw unknownNode('nodeId' in submission ? String(submission.nodeId) : '')
    if (outcome === 'done' || outcome === 'repeated') await wake(submission.model)
    return outcome
  }
  return {
    async load(submission, once) {
      const model = await models.find(submission.model)
      if (model === null) return 'unknown'
      await checkFit(model, submission.nodeId, { nodes, place })
      const outcome = await store.load(submission, (facts) => decideNodeLoad(facts, submission.nodeId), once)
      if (typeof outcome === 'object') throw atMaximum(submission.model, outcome.max)
      return await waking(submission, outcome)
    },
    unload: async (submission, once) => await waking(submission, await store.unload(submission, once)),
    async remove(submission, once) {
      const model = await models.find(submission.model)
      if (model === null) return 'unknown'
      const lost = await holders.onlyCopies(uploadsOf(model.config), submission.nodeId)
      if (lost.length > 0) throw onlyCopy(model.config, lost)
      return await waking(submission, await store.remove(submission, once))
    },
    async prefetch({ nodes: ids, selector, ...submission }, once) {
      const model = await models.find(submission.model)
      if (model === null) return 'unknown'
      const choice = choosePrefetchNodes(await nodes.list(), { nodes: ids, selector }, model.config.scheduling)
      switch (choice.kind) {
        case 'unknown_node':
          throw unknownNode(choice.id)
        case 'not_eligible':
          throw new Refused('not_eligible', `files cannot be fetched to ${choice.name}: ${choice.reason}`)
        case 'none':
          throw new Refused('no_eligible_nodes', choice.message)
        case 'chosen':
          return await waking(submission, await store.prefetch({ ...submission, nodes: choice.nodes }, once))
      }
    },
  }
}

/** A node that cannot run the model is refused at once: its load would wait there, or go elsewhere. */
async function checkFit(
  { config, loads }: ModelRecord,
  nodeId: NodeId,
  { nodes, place }: Pick<NodeSubmitDeps, 'nodes' | 'place'>,
): Promise<void> {
  const isThere = loads.some((load) => load.purpose === 'serve' && load.nodeId === nodeId && load.state !== 'failed')
  if (isThere) return
  const node = await nodes.find(nodeId)
  if (node === null) throw unknownNode(nodeId)
  const { placement } = await place({ config, purpose: 'serve', avoid: null, pin: nodeId, loadedOn: nodeId })
  const judged = placement.nodes.find((each) => each.node_id === nodeId)
  if (judged === undefined || judged.eligible || judged.isAwaited || placement.eviction?.nodeId === nodeId) return
  throw new Refused('not_eligible', `${node.name} cannot run ${config.name}: ${judged.reason}`)
}

const uploadsOf = ({ files }: ModelConfig): string[] =>
  files.flatMap(({ uri }) => (uri.startsWith('upload:') ? [uri.slice('upload:'.length)] : []))

const unknownNode = (id: string): Refused => new Refused('not_found', `node ${id} does not exist; GET /api/nodes lists all nodes`)

const atMaximum = (model: string, max: number): Refused =>
  new Refused(
    'at_maximum',
    `${model} has ${max} of at most ${max} replicas (max_replicas); unload one on another node first, or raise the maximum with \`muster models scale\``,
  )

function onlyCopy({ name, files }: ModelConfig, lost: readonly string[]): Refused {
  const names = files.flatMap(({ uri, filename }) => (lost.some((digest) => uri === `upload:${digest}`) ? [filename] : []))
  return new Refused(
    'only_copy',
    `this node has the only copy of ${names.join(', ')} of ${name}, which was uploaded; prefetch the model on another node first, or delete the model`,
  )
}
