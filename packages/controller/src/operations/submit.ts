// Submits operations about backends: chooses the nodes and the exact content for each, then stores everything in one
// transaction. Every error is found before it, so nothing is queued on any error.
import { newId, parseDuration, type Step } from '@muster/host'
import {
  type BackendName,
  type DeleteQuery,
  type InstallRequest,
  type NodeId,
  OperationId,
  type OperationView,
  parseBackendReference,
  Rollout,
  type UpgradeAllRequest,
  type UpgradeRequest,
} from '@muster/protocol'
import type { InstallTarget, NodePlan, PlanInstall, PlanUpgrade } from '../gallery/planners.ts'
import type { IntentStore } from '../store/intents.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { nothingToFetch, type Plan } from '../store/intent-rows.ts'
import type { ReplicaStore } from '../store/replicas.ts'
import type { RolloutSpec } from '../store/operation-nodes.pure.ts'
import type { Submission, SubmissionStore, SubmittedNode } from '../store/submissions.ts'
import { chooseNodes, hasBackend, mayHave, type NodeSelection } from './nodes.pure.ts'
import { diskNote, previewOf } from './dry-run.ts'

export interface SubmitDeps {
  readonly nodes: Pick<NodeStore, 'list'>
  readonly intents: Pick<IntentStore, 'findByBackend' | 'installedUnlisted' | 'listedName'>
  readonly replicas: Pick<ReplicaStore, 'listUsing'>
  readonly planInstall: PlanInstall
  readonly planUpgrade: PlanUpgrade
  /** Backends with an upgrade or drift. */
  readonly upgradable: () => Promise<readonly BackendName[]>
  readonly store: Pick<SubmissionStore, 'submit'>
  /** Read at each submission; default: `refuse`. With `warn` the plans of nodes whose disk looks too small have a warning. */
  readonly diskCheck?: () => 'refuse' | 'warn'
  readonly step: Step
  /** RFC 3339. */
  readonly now: () => string
  /** Called when there are new intents. */
  readonly wake: () => void
}
export type By = Readonly<{ requestedBy: string; signal: AbortSignal }>
/** Makes a repeated request harmless: the answer is stored under its key, in the same transaction. */
export type AnswerOnce = Parameters<SubmissionStore['submit']>[1]
export type Submissions = ReturnType<typeof createSubmissions>

export function createSubmissions(deps: SubmitDeps) {
  return {
    install: (request: InternalInstallRequest, by: By): Promise<Submission> => prepareInstall(request, by, deps),
    upgrade: (name: BackendName, request: UpgradeRequest, by: By): Promise<Submission> => prepareUpgrade({ name, request }, by, deps),
    /** Upgrades of the named backends, or of all, where there is one. */
    upgrades: (request: UpgradeAllRequest, by: By): Promise<Submission[]> => prepareUpgrades(request, by, deps),
    remove: (name: BackendName, query: DeleteQuery, by: By): Promise<Submission> => prepareRemove({ name, query }, by, deps),
    /** The operation that a submission would become. */
    preview: (submission: Submission): Promise<OperationView> => preview(submission, deps),
    /** Stores the prepared submissions in one transaction. False when the key of the request was used meanwhile. */
    submit: (prepared: readonly Submission[], once: AnswerOnce = null): Promise<boolean> => submit(prepared, once, deps),
  }
}

async function submit(prepared: readonly Submission[], once: AnswerOnce, { store, step, wake }: SubmitDeps): Promise<boolean> {
  await step('FE.intent.before_commit')
  const stored = await store.submit(prepared, once)
  await step('FE.intent.after_commit')
  wake()
  return stored !== null
}

async function preview(submission: Submission, { nodes, replicas, now }: SubmitDeps): Promise<OperationView> {
  const running = await replicas.listUsing(
    [submission.backend],
    submission.nodes.map(({ nodeId }) => nodeId),
  )
  const using = new Set<string>(running.map(({ nodeId }) => nodeId))
  return previewOf(submission, { nodes: await nodes.list(), using, now: now() })
}

/** With the gallery to look in when the request names none. */
type InternalInstallRequest = InstallRequest & Pick<InstallTarget, 'from'>

async function prepareInstall(
  request: InternalInstallRequest,
  { requestedBy, signal }: By,
  { nodes: store, intents, planInstall, diskCheck }: SubmitDeps,
): Promise<Submission> {
  const chosen = choose(await store.list(), request)
  if (chosen.length === 0) throw noEligibleNodes(request.selector !== undefined)
  const requestedName = request.backend === undefined ? request.name : parseBackendReference(request.backend).backend
  const row = requestedName === undefined ? undefined : await intents.listedName(requestedName)
  const planned = await planInstall(request, chosen, signal)
  const backend = row ?? planned.backend
  const name = backend === planned.backend ? null : planned.backend
  const nodes = planned.nodes.map((each) => requested(each, (plan) => ({ plan: { ...plan, name: plan.name ?? name }, isCurrent: false })))
  return withWarnings({ ...begun('backend.install', backend, requestedBy), options: {}, nodes }, chosen, diskCheck?.())
}

async function prepareUpgrade(
  { name, request }: { name: BackendName; request: UpgradeRequest },
  { requestedBy, signal }: By,
  { nodes: store, intents, planUpgrade, diskCheck }: SubmitDeps,
): Promise<Submission> {
  const backend = await intents.listedName(name)
  const openInstalls = new Map<string, Plan>()
  for (const { intent, plan } of (await intents.findByBackend(backend)).rows)
    if (intent.kind === 'install') openInstalls.set(intent.nodeId, plan)
  // In this order: an install that is open now may be unlisted later, and an unlisted one listed, but never the reverse.
  const unlisted = await intents.installedUnlisted(backend)
  const chosen = choose(await store.list(), request)
  const concerned = chosen.filter((node) => hasBackend(node, backend) || unlisted.has(node.id) || openInstalls.has(node.id))
  if (concerned.length === 0) throw notInstalled(name)
  const targets = concerned.map((node) => ({ node, openPlan: openInstalls.get(node.id) ?? null }))
  const planned = await planUpgrade({ backend, strategy: request.strategy }, targets, signal)
  const nodes = planned.map((each) => requested(each, (plan) => ({ plan, isCurrent: isCurrent(each.node, backend, plan) })))
  const options = { strategy: request.strategy, ...(request.rollout === undefined ? {} : { rollout: request.rollout }) }
  const rollout = request.strategy === 'rolling' ? { rollout: specOf(Rollout.parse(request.rollout ?? {})) } : {}
  return withWarnings({ ...begun('backend.upgrade', backend, requestedBy), options, ...rollout, nodes }, chosen, diskCheck?.())
}

function withWarnings(submission: Submission, known: readonly NodeRecord[], diskCheck: 'refuse' | 'warn' = 'refuse'): Submission {
  if (diskCheck === 'refuse') return submission
  const warn = (node: SubmittedNode): SubmittedNode => {
    const record = known.find(({ id }) => id === node.nodeId)
    if ('skip' in node || node.isCurrent || record === undefined) return node
    const warning = diskNote(submission, { known: record, plan: node.plan })
    return warning === null ? node : { ...node, plan: { ...node.plan, warning } }
  }
  return { ...submission, nodes: submission.nodes.map(warn) }
}

/** Backends that the chosen nodes lack, or have in their newest build, are left out. */
async function prepareUpgrades({ backends, ...request }: UpgradeAllRequest, by: By, deps: SubmitDeps): Promise<Submission[]> {
  // An unknown node is an error also when there is nothing to upgrade.
  choose(await deps.nodes.list(), request)
  const upgradable = await deps.upgradable()
  const names = backends === undefined ? upgradable : upgradable.filter((name) => backends.includes(name))
  const prepared = await Promise.all(
    names.map((name) =>
      prepareUpgrade({ name, request }, by, deps).catch((error: unknown) => {
        if (error instanceof Refused && error.code === 'not_installed') return null
        throw error
      }),
    ),
  )
  return prepared
    .filter((submission) => submission !== null)
    .filter(({ nodes }) => nodes.some((node) => !('isCurrent' in node && node.isCurrent)))
}

const specOf = ({ canary, max_parallel: maxParallel, min_healthy_time: time }: Rollout): RolloutSpec => ({
  canary,
  maxParallel,
  minHealthyMs: parseDuration(time),
})

async function prepareRemove(
  { name, query }: { name: BackendName; query: DeleteQuery },
  { requestedBy }: By,
  { nodes: store, intents, replicas }: SubmitDeps,
): Promise<Submission> {
  const backend = await intents.listedName(name)
  // In this order, as above.
  const open = (await intents.findByBackend(backend)).rows.map(({ intent }) => intent.nodeId)
  const intentNodes = new Set([...open, ...(await intents.installedUnlisted(backend))])
  const chosen = choose(await store.list(), { nodes: query.node })
  const targets = query.node === undefined ? mayHave(chosen, backend, intentNodes) : chosen
  if (targets.length === 0) throw notInstalled(name)
  const using = await replicas.listUsing(
    [backend, name],
    targets.map(({ id }) => id),
  )
  if (using.length > 0 && !query.force) throw inUse(backend, using)
  const nodes = targets.map(({ id, name: nodeName }) => ({ nodeId: id, nodeName, plan: nothingToFetch, isCurrent: false }))
  return { ...begun('backend.delete', backend, requestedBy), options: query.force ? { force: true } : {}, nodes }
}

function choose(all: readonly NodeRecord[], wanted: NodeSelection): readonly NodeRecord[] {
  const choice = chooseNodes(all, wanted)
  if (choice.kind === 'unknown_node') throw unknownNode(choice.id)
  if (choice.kind === 'not_eligible') throw notEligible(choice.node.name, choice.reason)
  return choice.nodes
}

const begun = (kind: Submission['kind'], backend: BackendName, requestedBy: string) => ({
  id: OperationId.parse(newId('op')),
  kind,
  backend,
  requestedBy,
})

function requested(planned: NodePlan, of: (plan: Plan) => { plan: Plan; isCurrent: boolean }): SubmittedNode {
  const about = { nodeId: planned.node.id, nodeName: planned.node.name }
  return planned.outcome === 'planned' ? { ...about, ...of(planned.plan) } : { ...about, skip: planned.reason }
}

const isCurrent = (node: NodeRecord, backend: BackendName, { digest }: Plan): boolean =>
  digest !== null && node.inventory.some((each) => each.name === backend && each.digest === digest)

export type RefusalCode = 'not_found' | 'not_installed' | 'not_eligible' | 'no_eligible_nodes' | 'in_use' | 'at_maximum' | 'only_copy'

export class Refused extends Error {
  readonly code: RefusalCode

  constructor(code: RefusalCode, message: string) {
    super(message)
    this.name = 'Refused'
    this.code = code
  }
}

const unknownNode = (id: NodeId): Refused => new Refused('not_found', `node ${id} does not exist; GET /api/nodes lists all nodes`)

const notEligible = (name: string, reason: string): Refused => new Refused('not_eligible', `nothing can be installed on ${name}: ${reason}`)

const noEligibleNodes = (isSelected: boolean): Refused =>
  new Refused(
    'no_eligible_nodes',
    isSelected
      ? 'the selector matches no node that can have backends; GET /api/nodes shows their labels'
      : 'there is no node that can have backends: approve one, or let one join',
  )

const inUse = (backend: BackendName, using: readonly { model: string; nodeName: string }[]): Refused => {
  const users = using.slice(0, 5).map(({ model, nodeName }) => `${model} on ${nodeName}`)
  const more = using.length > 5 ? ` and ${using.length - 5} more` : ''
  return new Refused('in_use', `${backend} runs ${users.join(', ')}${more}; unload them first, or delete it with ?force=true`)
}

const notInstalled = (backend: BackendName): Refused =>
  new Refused('not_installed', `no node has ${backend}; GET /api/backends lists what is installed`)
