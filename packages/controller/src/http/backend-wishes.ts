// /api/backends: installing, upgrading and deleting. What is asked for becomes one transaction, or an error.
import type { Step } from '@muster/host'
import { backendRoutes as routes, unreachable, type BackendName, type OperationId, type OperationView } from '@muster/protocol'
import { previewOf } from '../operations/dry-run.ts'
import type { By, Submissions } from '../operations/submit.ts'
import type { Principal } from '../auth/principal.ts'
import { nameOf } from '../auth/principal-name.ts'
import type { NodeStore } from '../store/nodes.ts'
import type { ReplicaStore } from '../store/replicas.ts'
import { toFleetError } from '../store/translate-error.ts'
import type { IdempotencyKey, Submission, SubmissionStore } from '../store/submissions.ts'
import { Answer, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'
import { answeredBefore, idempotencyKeyOf } from './idempotency.ts'

export interface BackendWishDeps {
  readonly wishes: Submissions
  readonly store: SubmissionStore
  readonly nodes: Pick<NodeStore, 'list'>
  readonly replicas: Pick<ReplicaStore, 'listUsing'>
  /** Backends that have an upgrade, or differ between nodes. */
  readonly upgradable: () => Promise<readonly BackendName[]>
  readonly step: Step
  readonly now: () => string
  readonly wake: () => void
}

type Caller = Readonly<{ headers: Headers; principal: Principal; signal: AbortSignal }>
type Accepted = { operation_id: OperationId } | OperationView

export function backendWishEndpoints(deps: BackendWishDeps): Endpoint[] {
  const { wishes } = deps
  return [
    endpoint(routes.install, async ({ body, ...call }) =>
      body.dry_run === true
        ? await preview(await wishes.install(body, byOf(call)), deps)
        : await submit(call, { request: ['install', body], wish: (by) => wishes.install(body, by) }, deps),
    ),
    endpoint(routes.upgradeAll, async ({ body, ...call }) => await submitUpgrades(call, body.backends, deps)),
    endpoint(routes.upgrade, async ({ params: { name }, body, ...call }) =>
      body.dry_run === true
        ? await preview(await wishes.upgrade(name, body, byOf(call)), deps)
        : await submit(call, { request: ['upgrade', name, body], wish: (by) => wishes.upgrade(name, body, by) }, deps),
    ),
    endpoint(routes.remove, async ({ params: { name }, query, ...call }) =>
      query.dry_run
        ? await preview(await wishes.remove(name, query, byOf(call)), deps)
        : await submit(call, { request: ['delete', name, query], wish: (by) => wishes.remove(name, query, by) }, deps),
    ),
  ]
}

const byOf = ({ principal, signal }: Omit<Caller, 'headers'>): By => ({ requestedBy: nameOf(principal), signal })

async function preview(wish: Submission, { nodes, replicas, now }: BackendWishDeps): Promise<Answer<Accepted>> {
  const found = await replicas.listUsing(
    [wish.backend],
    wish.nodes.map(({ nodeId }) => nodeId),
  )
  const using = new Set<string>(found.map(({ nodeId }) => nodeId))
  return new Answer<Accepted>(200, previewOf(wish, { nodes: await nodes.list(), using, now: now() }))
}

async function submit(
  call: Caller,
  { request, wish }: { request: unknown; wish: (by: By) => Promise<Submission> },
  { store, step, wake }: BackendWishDeps,
): Promise<Answer<Accepted>> {
  const key = idempotencyKeyOf(call, request)
  const before = await answeredBefore(store, key)
  if (before !== null) return before
  const made = await wish(byOf(call))
  const answer = { operation_id: made.id }
  await step('FE.intent.before_commit')
  const isNew = await enqueue(store, [made], key === null ? null : { ...key, status: 202, response: answer })
  await step('FE.intent.after_commit')
  wake()
  return isNew ? new Answer(202, answer) : ((await answeredBefore(store, key)) ?? unreachable(null as never))
}

/** One operation per backend, all in one transaction. */
async function submitUpgrades(call: Caller, named: readonly BackendName[] | undefined, deps: BackendWishDeps) {
  const { store, wishes, upgradable, wake } = deps
  const key = idempotencyKeyOf(call, ['upgrades', named])
  const before = await answeredBefore(store, key)
  if (before !== null) return before
  const able = await upgradable()
  const chosen = named === undefined ? able : able.filter((name) => named.includes(name))
  if (chosen.length === 0) return new Answer(200, { operations: [] })
  const all = { strategy: 'rolling' as const }
  const made = await Promise.all(chosen.map((name) => wishes.upgrade(name, all, byOf(call))))
  const answer = { operations: made.map(({ backend, id }) => ({ backend, operation_id: id })) }
  const isNew = await enqueue(store, made, key === null ? null : { ...key, status: 202, response: answer })
  wake()
  return isNew ? new Answer(202, answer) : ((await answeredBefore(store, key)) ?? new Answer(202, answer))
}

async function enqueue(
  store: SubmissionStore,
  wishes: readonly Submission[],
  once: (IdempotencyKey & { status: number; response: object }) | null,
): Promise<boolean> {
  try {
    return (await store.submit(wishes, once)) !== null
  } catch (error) {
    // It was one transaction: nothing of it is there, whatever the reason was, or all of it and the key says so.
    const { message } = toFleetError(error).failure
    throw new HttpError(503, 'enqueue_failed', `enqueue failed: ${message}`, { headers: { 'retry-after': '2' }, cause: error })
  }
}
