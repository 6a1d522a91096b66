// Texts about the result of a dry run: the outcome for each node, the summary, the effect on running models.
import { formatBytes, type OperationNode, type OperationView, type Strategy } from '@muster/protocol'
import { listNames, plural } from '../../format.ts'
import { buildName } from './backend-words.pure.ts'

/** `later`: the node is unreachable or draining. `skipped`: the backend does not fit it. */
export type Outcome = 'now' | 'unchanged' | 'later' | 'skipped'
export type PlannedNode = Readonly<{ id: string; name: string; note: string; bytes: number }>
export type Preview = Readonly<Record<Outcome, readonly PlannedNode[]>>

export interface PreviewFacts {
  /** Node status by node ID. */
  readonly statuses: ReadonlyMap<string, string>
  /** Installed build by node ID. */
  readonly installed: ReadonlyMap<string, Readonly<{ version: string; digest: string }>>
}

export function previewOf({ kind, nodes }: Pick<OperationView, 'kind' | 'nodes'>, facts: PreviewFacts): Preview {
  const preview: Record<Outcome, PlannedNode[]> = { now: [], unchanged: [], later: [], skipped: [] }
  for (const node of nodes) {
    const outcome = outcomeOf(kind, node, facts)
    const note = noteOf(kind, { node, outcome, facts })
    preview[outcome].push({
      id: node.node_id,
      name: node.node_name,
      note,
      bytes: outcome === 'now' || outcome === 'later' ? node.total : 0,
    })
  }
  return preview
}

function outcomeOf(kind: OperationView['kind'], node: OperationNode, { statuses, installed }: PreviewFacts): Outcome {
  if (node.status === 'skipped') return 'skipped'
  const status = statuses.get(node.node_id) ?? 'healthy'
  // A draining node reports its backends like a healthy one, so they are compared.
  const isReporting = status === 'healthy' || status === 'draining'
  const isThere = kind === 'backend.install' ? isReporting && installed.has(node.node_id) : node.up_to_date === true
  if (isThere) return 'unchanged'
  return status === 'healthy' ? 'now' : 'later'
}

type NodeOutcome = Readonly<{ node: OperationNode; outcome: Outcome; facts: PreviewFacts }>

function noteOf(kind: OperationView['kind'], { node, outcome, facts }: NodeOutcome): string {
  if (outcome === 'skipped') return node.message
  const status = facts.statuses.get(node.node_id)
  const build = facts.installed.get(node.node_id)
  if (outcome === 'later') return status === 'draining' ? 'draining; starts when resumed' : `${status}; starts when healthy`
  if (outcome === 'unchanged') return build === undefined ? 'already up to date' : `has ${buildName(build)}`
  if (kind === 'backend.install' || build === undefined) return ''
  const ring = node.ring === null ? '' : node.ring <= 1 ? ', canary' : `, ring ${node.ring}`
  return `has ${buildName(build)}${ring}`
}

const verbs = {
  'backend.install': { now: 'Install now', unchanged: 'Already installed', later: 'Install later', verb: 'Install', on: 'on' },
  'backend.upgrade': { now: 'Upgrade now', unchanged: 'Already up to date', later: 'Upgrade later', verb: 'Upgrade', on: 'on' },
  'backend.delete': { now: 'Delete now', unchanged: 'Already deleted', later: 'Delete later', verb: 'Delete', on: 'from' },
} as const
export type ChangeKind = keyof typeof verbs

export const outcomeTitle = (kind: ChangeKind, outcome: Outcome): string => (outcome === 'skipped' ? 'Skipped' : verbs[kind][outcome])

const countAffected = ({ now, later }: Preview): number => now.length + later.length

/** Text of the submit button; null when there is nothing to do. */
export function buttonText(kind: ChangeKind, backend: string, preview: Preview | null): string | null {
  const { verb, on } = verbs[kind]
  if (preview === null) return `${verb} ${backend}`
  if (countAffected(preview) > 0) return `${verb} ${backend} ${on} ${plural(countAffected(preview), 'node')}`
  // An installed build is verified, and repaired if it is damaged.
  return preview.unchanged.length > 0 ? `Verify ${backend} on ${plural(preview.unchanged.length, 'node')}` : null
}

const summaries = {
  'backend.install': { verb: 'Installs on', unchanged: ['already has it', 'already have it'] },
  'backend.upgrade': { verb: 'Upgrades', unchanged: ['is up to date', 'are up to date'] },
  'backend.delete': { verb: 'Deletes from', unchanged: ['no longer has it', 'no longer have it'] },
} as const

/** `Installs on 2 nodes now and 1 node later. 1 node already has it.` */
export function previewSentence(kind: ChangeKind, { now, unchanged, later, skipped }: Preview): string {
  if (now.length + unchanged.length + later.length === 0) return 'Nothing to do: no compatible nodes.'
  const {
    verb,
    unchanged: [one, many],
  } = summaries[kind]
  const affected = [
    ...(now.length > 0 ? [`${plural(now.length, 'node')} now`] : []),
    ...(later.length > 0 ? [`${plural(later.length, 'node')} later`] : []),
  ]
  const bytes = [...now, ...later].reduce((sum, node) => sum + node.bytes, 0)
  return [
    ...(affected.length > 0 ? [`${verb} ${affected.join(' and ')}.`] : []),
    ...(unchanged.length > 0 ? [`${plural(unchanged.length, 'node')} ${unchanged.length === 1 ? one : many}.`] : []),
    ...(skipped.length > 0 ? [`${plural(skipped.length, 'node')} skipped.`] : []),
    ...(bytes > 0 ? [`Downloads at most ${formatBytes(bytes)}.`] : []),
  ].join(' ')
}

export type RunningReplica = Readonly<{ model: string; nodeId: string; nodeName: string }>

/** The effect on models that run on the affected nodes. */
export function servingSentence(
  change: { kind: ChangeKind; strategy?: Strategy },
  preview: Preview,
  replicas: readonly RunningReplica[],
): string {
  if (change.kind === 'backend.install') return ''
  const touched = new Set([...preview.now, ...preview.later].map(({ id }) => id))
  const running = replicas.filter(({ nodeId }) => touched.has(nodeId))
  if (touched.size === 0) return ''
  if (running.length === 0) return 'No running models are affected.'
  const models = [...new Set(running.map(({ model }) => model))].toSorted()
  const names = `${listNames(models)} (${plural(running.length, 'replica')} on ${listNames([...new Set(running.map(({ nodeName }) => nodeName))].toSorted())})`
  const [keeps, stops, it] = models.length === 1 ? ['keeps', 'stops', 'it'] : ['keep', 'stop', 'them']
  if (change.kind === 'backend.delete') return `${names} ${stops} after finishing current requests.`
  return change.strategy === 'recreate'
    ? `${names} ${stops} serving until the next request loads ${it} again.`
    : `${names} ${keeps} serving: the new build starts next to the old one and takes over when ready.`
}
