// /api/backends: lists installed and offered backends; submits installs, upgrades and deletions. A submission is one
// transaction.
import { backendRoutes as routes, type OperationId, type OperationView, unreachable } from '@muster/protocol'
import { type Principal, principalName } from '../auth/principal.ts'
import type { Catalogue } from '../gallery/catalogue.ts'
import type { UpgradeChecker } from '../inventory/check-upgrades.ts'
import { type FleetBackends, offeredBackends } from '../inventory/fleet-backends.ts'
import { leftOutOf } from '../models/model-catalogue.ts'
import type { AnswerOnce, By, Submissions } from '../operations/submit.ts'
import type { NodeStore } from '../store/nodes.ts'
import { toFleetError } from '../store/errors.ts'
import type { Submission, SubmissionStore } from '../store/submissions.ts'
import { Answer, endpoint, type Endpoint, findStoredAnswer, idempotencyKeyOf } from './endpoint.ts'
import { HttpError } from './http-error.ts'

export interface BackendDeps {
  readonly fleet: FleetBackends
  readonly catalogue: Catalogue
  readonly checker: UpgradeChecker
  readonly submissions: Submissions
  readonly store: Pick<SubmissionStore, 'remembered'>
  readonly nodes: NodeStore
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
      return { backends: offeredBackends(offers, allNodes), problems, left_out: offers.galleries.flatMap(leftOutOf) }
    }),
    endpoint(routes.upgrades, () => fleet.upgrades()),
    endpoint(routes.check, async () => {
      await checker.checkNow()
      return await fleet.upgrades()
    }),
    endpoint(routes.install, async ({ body, ...call }) => {
      const request = { key: ['install', body], prepare: (by: By) => submissions.install(body, by) }
      return body.dry_run === true ? await preview(call, request, deps) : await submitOne(call, request, deps)
    }),
    endpoint(routes.upgradeAll, async ({ body, ...call }) => {
      const prepare = (by: By) => submissions.upgrades(body, by)
      if (body.dry_run !== true) return await submit(call, { key: ['upgrades', body], prepare, render: renderAll }, deps)
      const prepared = await prepare(requesterOf(call))
      return new Answer(200, { operations: await Promise.all(prepared.map(submissions.preview)) })
    }),
    endpoint(routes.upgrade, async ({ params: { name }, body, ...call }) => {
      const request = { key: ['upgrade', name, body], prepare: (by: By) => submissions.upgrade(name, body, by) }
      return body.dry_run === true ? await preview(call, request, deps) : await submitOne(call, request, deps)
    }),
    endpoint(routes.remove, async ({ params: { name }, query, ...call }) => {
      const request = { key: ['delete', name, query], prepare: (by: By) => submissions.remove(name, query, by) }
      return query.dry_run ? await preview(call, request, deps) : await submitOne(call, request, deps)
    }),
  ]
}

type Caller = Readonly<{ headers: Headers; principal: Principal; signal: AbortSignal }>
type AcceptedOperation = { operation_id: OperationId } | OperationView
type OneRequest = Readonly<{ key: unknown; prepare: (by: By) => Promise<Submission> }>

const requesterOf = ({ principal, signal }: Caller): By => ({ requestedBy: principalName(principal), signal })

async function preview(call: Caller, { prepare }: OneRequest, { submissions }: BackendDeps): Promise<Answer<AcceptedOperation>> {
  return new Answer<AcceptedOperation>(200, await submissions.preview(await prepare(requesterOf(call))))
}

async function submitOne(call: Caller, { key, prepare }: OneRequest, deps: BackendDeps): Promise<Answer<AcceptedOperation>> {
  const render = ([submission]: readonly Submission[]): AcceptedOperation => ({
    operation_id: submission?.id ?? unreachable(null as never),
  })
  return await submit(call, { key, prepare: async (by) => [await prepare(by)], render }, deps)
}

const renderAll = (prepared: readonly Submission[]) => ({
  operations: prepared.map(({ backend, id }) => ({ backend, operation_id: id })),
})

interface Request<Body extends object> {
  /** Identifies the request to its Idempotency-Key. */
  readonly key: unknown
  readonly prepare: (by: By) => Promise<readonly Submission[]>
  readonly render: (prepared: readonly Submission[]) => Body
}

async function submit<Body extends object>(
  call: Caller,
  request: Request<Body>,
  { store, submissions }: BackendDeps,
): Promise<Answer<Body>> {
  const key = idempotencyKeyOf(call, request.key)
  const stored = await findStoredAnswer(store, key)
  if (stored !== null) return stored
  const prepared = await request.prepare(requesterOf(call))
  const answer = request.render(prepared)
  if (prepared.length === 0) return new Answer(200, answer)
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
