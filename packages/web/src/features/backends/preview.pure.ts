// What a dry run means for each node, in words. Pure.
import type { OperationNode, OperationView, Strategy } from '@muster/protocol'
import { formatBytes, listNames, plural } from '../../format.ts'
import { buildName } from './backend-words.pure.ts'

/** `now`: begun at once. `there`: nothing is to be done. `later`: the node is away, or drained. `skipped`: it does not fit. */
export type Fate = 'now' | 'there' | 'later' | 'skipped'
export type PlannedNode = Readonly<{ id: string; name: string; note: string; bytes: number }>
export type Preview = Readonly<Record<Fate, readonly PlannedNode[]>>

export interface PreviewFacts {
  /** Of each node, by id. */
  readonly statuses: ReadonlyMap<string, string>
  /** Nodes that have it, by id. */
  readonly installed: ReadonlyMap<string, Readonly<{ version: string; digest: string }>>
}

export function previewOf({ kind, nodes }: Pick<OperationView, 'kind' | 'nodes'>, facts: PreviewFacts): Preview {
  const preview: Record<Fate, PlannedNode[]> = { now: [], there: [], later: [], skipped: [] }
  for (const node of nodes) {
    const fate = fateOf(kind, node, facts)
    const note = noteOf(kind, { node, fate, facts })
    preview[fate].push({ id: node.node_id, name: node.node_name, note, bytes: fate === 'now' || fate === 'later' ? node.total : 0 })
  }
  return preview
}

/** As the server says it of a node that has the newest build. */
const current = 'already up to date'

function fateOf(kind: OperationView['kind'], node: OperationNode, { statuses, installed }: PreviewFacts): Fate {
  if (node.status === 'skipped') return 'skipped'
  if ((statuses.get(node.node_id) ?? 'healthy') !== 'healthy') return 'later'
  if (kind === 'backend.install') return installed.has(node.node_id) ? 'there' : 'now'
  return node.message === current ? 'there' : 'now'
}

type Noted = Readonly<{ node: OperationNode; fate: Fate; facts: PreviewFacts }>

function noteOf(kind: OperationView['kind'], { node, fate, facts }: Noted): string {
  if (fate === 'skipped') return node.message
  const status = facts.statuses.get(node.node_id)
  const has = facts.installed.get(node.node_id)
  if (fate === 'later') return status === 'draining' ? 'draining: when it is resumed' : `${status}: when it returns`
  if (fate === 'there') return has === undefined ? current : `has ${buildName(has)}`
  if (kind === 'backend.install' || has === undefined) return ''
  const ring = node.ring === null ? '' : node.ring <= 1 ? ', first' : `, ring ${node.ring}`
  return `has ${buildName(has)}${ring}`
}

const verbs = {
  'backend.install': { now: 'Installed now', there: 'Already there', later: 'Installed later', verb: 'Install', on: 'on' },
  'backend.upgrade': { now: 'Upgraded now', there: 'Already up to date', later: 'Upgraded later', verb: 'Upgrade', on: 'on' },
  'backend.delete': { now: 'Deleted now', there: 'Already gone', later: 'Deleted later', verb: 'Delete', on: 'from' },
} as const
export type WishKind = keyof typeof verbs

export const fateTitle = (kind: WishKind, fate: Fate): string => (fate === 'skipped' ? 'Left out' : verbs[kind][fate])

const concerned = ({ now, later }: Preview): number => now.length + later.length

/** What the button does; null: there is nothing to do. */
export function buttonText(kind: WishKind, backend: string, preview: Preview | null): string | null {
  const { verb, on } = verbs[kind]
  if (preview === null) return `${verb} ${backend}`
  if (concerned(preview) > 0) return `${verb} ${backend} ${on} ${plural(concerned(preview), 'node')}`
  // What is there is looked at, and repaired if it is damaged.
  return preview.there.length > 0 ? `Verify ${backend} on ${plural(preview.there.length, 'node')}` : null
}

const doing = {
  'backend.install': { one: 'gets it', many: 'get it', thereOne: 'has it already', thereMany: 'have it already' },
  'backend.upgrade': { one: 'is upgraded', many: 'are upgraded', thereOne: 'is up to date', thereMany: 'are up to date' },
  'backend.delete': { one: 'loses it', many: 'lose it', thereOne: 'has it no more', thereMany: 'have it no more' },
} as const

/** The whole in a sentence. */
export function previewSentence(kind: WishKind, { now, there, later, skipped }: Preview): string {
  if (now.length + there.length + later.length === 0) return 'Nothing would be done: no node is left.'
  const { one, many, thereOne, thereMany } = doing[kind]
  const clauses: [count: number, one: string, many: string][] = [
    [now.length, `${one} now`, `${many} now`],
    [
      later.length,
      now.length > 0 ? 'when it is back' : `${one} when it is back`,
      now.length > 0 ? 'when they are back' : `${many} when they are back`,
    ],
    [there.length, thereOne, thereMany],
    [skipped.length, 'is left out', 'are left out'],
  ]
  const said = clauses
    .filter(([count]) => count > 0)
    .map(([count, ofOne, ofMany], index) => `${index === 0 ? plural(count, 'node') : count} ${count === 1 ? ofOne : ofMany}`)
  const bytes = [...now, ...later].reduce((sum, node) => sum + node.bytes, 0)
  return `${said.join(', ')}.${bytes > 0 ? ` ${formatBytes(bytes)} to fetch at most.` : ''}`
}

export type UsedBy = Readonly<{ model: string; nodeId: string; nodeName: string }>

/** What becomes of the models that run on it where something is done; empty when none does. */
export function servingSentence(wish: { kind: WishKind; strategy?: Strategy }, preview: Preview, replicas: readonly UsedBy[]): string {
  if (wish.kind === 'backend.install') return ''
  const touched = new Set([...preview.now, ...preview.later].map(({ id }) => id))
  const running = replicas.filter(({ nodeId }) => touched.has(nodeId))
  if (touched.size === 0) return ''
  if (running.length === 0) return 'No model runs on it there.'
  const models = [...new Set(running.map(({ model }) => model))].toSorted()
  const who = `${listNames(models)} (${plural(running.length, 'replica')} on ${listNames([...new Set(running.map(({ nodeName }) => nodeName))].toSorted())})`
  const [goes, stops] = models.length === 1 ? ['goes on', 'stops'] : ['go on', 'stop']
  if (wish.kind === 'backend.delete') return `${who} ${stops}: what is being answered is finished first.`
  return wish.strategy === 'recreate'
    ? `${who} ${stops} serving there, until the next request loads ${models.length === 1 ? 'it' : 'them'} again.`
    : `${who} ${goes} serving: the new build is started beside the old one and takes over when it is ready.`
}
