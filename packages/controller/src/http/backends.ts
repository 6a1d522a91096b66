// /api/backends: lists installed and offered backends; submits installs, upgrades and deletions. A submission is one
// transaction.
import { type BackendName, backendRoutes as routes, type OperationId, type OperationView, unreachable } from '@muster/protocol'
import { type Principal, principalName } from '../auth/principal.ts'
import type { Catalogue } from '../gallery/catalogue.ts'
import type { UpgradeChecker } from '../inventory/check-upgrades.ts'
import { type FleetBackends, offeredBackends } from '../inventory/fleet-backends.ts'
import { previewOf } from '../operations/dry-run.ts'
import type { AnswerOnce, By, Submissions } from '../operations/submit.ts'
import type { NodeStore } from '../store/nodes.ts'
import type { ReplicaStore } from '../store/replicas.ts'
import { toFleetError } from '../store/errors.ts'
import type { Submission, SubmissionStore } from '../store/submissions.ts'
import { Answer, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'
import { findStoredAnswer, idempotencyKeyOf } from './idempotency.ts'

export interface BackendDeps {
  readonly fleet: FleetBackends
  readonly catalogue: Catalogue
  readonly checker: UpgradeChecker
  readonly submissions: Submissions
  readonly store: Pick<SubmissionStore, 'remembered'>
  readonly nodes: NodeStore
  readonly replicas: Pick<ReplicaStore, 'listUsing'>
  readonly now: () => string
}

/** Repeated reads of the catalogue within this time share one reading of the galleries. */
const galleriesMaxAgeMs = 5_000

export function backendEndpoints(deps: BackendDeps): Endpoint[] {
  const { fleet, catalogue, checker, nodes, submissions } = deps
  return [
    endpoint(routes.list, async () => ({ backends: await fleet.list() })),
    endpoint(routes.gallery, async () => {
      const [offers, allNodes] = await Promise.all([catalogue({ maxAgeMs: galleriesMaxAgeMs }), nodes.list()])
      const problems = offers.problems.map(({ gallery, failure }) => ({ gallery, message: failure.message }))
      return { backends: offeredBackends(offers, allNodes), problems }
    }),
    endpoint(routes.upgrades, () => fleet.upgrades()),
    endpoint(routes.check, async () => {
      await checker.checkNow()
      return await fleet.upgrades()
    }),
    endpoint(routes.install, async ({ body, ...call }) =>
      body.dry_run === true
        ? await preview(await submissions.install(body, requesterOf(call)), deps)
        : await submit(call, { request: ['install', body], plan: (by) => submissions.install(body, by) }, deps),
    ),
    endpoint(routes.upgradeAll, async ({ body, ...call }) => await submitUpgrades(call, body.backends, deps)),
    endpoint(routes.upgrade, async ({ params: { name }, body, ...call }) =>
      body.dry_run === true
        ? await preview(await submissions.upgrade(name, body, requesterOf(call)), deps)
        : await submit(call, { request: ['upgrade', name, body], plan: (by) => submissions.upgrade(name, body, by) }, deps),
    ),
    endpoint(routes.remove, async ({ params: { name }, query, ...call }) =>
      query.dry_run
        ? await preview(await submissions.remove(name, query, requesterOf(call)), deps)
        : await submit(call, { request: ['delete', name, query], plan: (by) => submissions.remove(name, query, by) }, deps),
    ),
  ]
}

type Caller = Readonly<{ headers: Headers; principal: Principal; signal: AbortSignal }>
type Accepted = { operation_id: OperationId } | OperationView

const requesterOf = ({ principal, signal }: Omit<Caller, 'headers'>): By => ({ requestedBy: principalName(principal), signal })

async function preview(submission: Submission, { nodes, replicas, now }: BackendDeps): Promise<Answer<Accepted>> {
  const running = await replicas.listUsing(
    [submission.backend],
    submission.nodes.map(({ nodeId }) => nodeId),
  )
  const using = new Set<string>(running.map(({ nodeId }) => nodeId))
  return new Answer<Accepted>(200, previewOf(submission, { nodes: await nodes.list(), using, now: now() }))
}

async function submit(
  call: Caller,
  { request, plan }: { request: unknown; plan: (by: By) => Promise<Submission> },
  { store, submissions }: BackendDeps,
): Promise<Answer<Accepted>> {
  const key = idempotencyKeyOf(call, request)
  const stored = await findStoredAnswer(store, key)
  if (stored !== null) return stored
  const submission = await plan(requesterOf(call))
  const answer = { operation_id: submission.id }
  const isNew = await enqueue(submissions, [submission], key === null ? null : { ...key, status: 202, response: answer })
  return isNew ? new Answer(202, answer) : ((await findStoredAnswer(store, key)) ?? unreachable(null as never))
}

/** One operation per backend, all in one transaction. */
async function submitUpgrades(call: Caller, named: readonly BackendName[] | undefined, deps: BackendDeps) {
  const { store, submissions, fleet } = deps
  const key = idempotencyKeyOf(call, ['upgrades', named])
  const stored = await findStoredAnswer(store, key)
  if (stored !== null) return stored
  const upgradable = await fleet.upgradable()
  const names = named === undefined ? upgradable : upgradable.filter((name) => named.includes(name))
  if (names.length === 0) return new Answer(200, { operations: [] })
  const prepared = await Promise.all(names.map((name) => submissions.upgrade(name, { strategy: 'rolling' }, requesterOf(call))))
  const answer = { operations: prepared.map(({ backend, id }) => ({ backend, operation_id: id })) }
  const isNew = await enqueue(submissions, prepared, key === null ? null : { ...key, status: 202, response: answer })
  return isNew ? new Answer(202, answer) : ((await findStoredAnswer(store, key)) ?? new Answer(202, answer))
}

async function enqueue(submissions: Submissions, prepared: readonly Submission[], once: AnswerOnce): Promise<boolean> {
  try {
    return await submissions.submit(prepared, once)
  } catch (error) {
    // One transaction: either nothing was stored, or everything, and then a retry with the same key finds the answer.
    const { message } = toFleetError(error).failure
    throw new HttpError(503, 'enqueue_failed', `enqueue failed: ${message}`, { headers: { 'retry-after': '2' }, cause: error })
  }
}
