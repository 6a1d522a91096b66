// Stores submissions: an operation and one intent per node, in one transaction. A transaction lock serializes submissions about
// one backend, because two that meet on a node without an intent would each believe to be the first. No side effect happens under
// the lock.
import { isOpen, type BackendName, type NodeId, type OperationId, type OperationKind, type IntentKind } from '@muster/protocol'
import { sql, type Kysely, type Transaction } from 'kysely'
import { beginRollout, type RolloutPlace } from './rollout-writes.ts'
import { decideSubmission, replacedBy, type RolloutSpec } from './operation-nodes.pure.ts'
import { fromIntentRow, type IntentRecord, lockNodes, type Plan, storeIntents } from './intent-rows.ts'
import { retryConflicts } from './errors.ts'
import { deriveIntentPauses } from './paused-work.ts'
import { tryRead } from './readable-rows.ts'
import type { Database } from './tables.ts'

export type SubmittedNode = Readonly<{ nodeId: NodeId; nodeName: string }> &
  (Readonly<{ plan: Plan; /** It has this version already. */ isCurrent: boolean }> | Readonly<{ skip: string }>)

export interface Submission {
  readonly id: OperationId
  readonly kind: Extract<OperationKind, `backend.${string}`>
  readonly backend: BackendName
  readonly requestedBy: string
  readonly options: Readonly<Record<string, unknown>>
  /** For an upgrade in rings; without it all nodes are upgraded at once. */
  readonly rollout?: RolloutSpec
  readonly nodes: readonly SubmittedNode[]
}

/** The final message of a node on which nothing had to be done. */
export const upToDateNote = 'already up to date'

export interface IdempotencyKey {
  readonly key: string
  readonly caller: string
  readonly requestSha256: string
}
export type StoredResponse = Readonly<{ requestSha256: string; status: number; response: unknown }>

type Tx = Transaction<Database>
type PlannedNode = Extract<SubmittedNode, { plan: Plan }>
/** `isProving`: the intent is applied, and its node is still watched. */
type Row = IntentRecord & { readonly isProving: boolean }
type RepinnedNode = PlannedNode & { readonly row: Row }

export class SubmissionStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** The stored response of this key; null when the key is new. */
  async remembered({ key, caller }: IdempotencyKey): Promise<StoredResponse | null> {
    const row = await this.#db
      .selectFrom('idempotency_keys')
      .select(['request_sha256', 'status', 'response'])
      .where('caller', '=', caller)
      .where('key', '=', key)
      .executeTakeFirst()
    return row === undefined ? null : { requestSha256: row.request_sha256, status: row.status, response: row.response }
  }

  /** For a request that several transactions carry out. The answer of a concurrent request with the same key stays. */
  async rememberAnswer(once: IdempotencyKey & { status: number; response: object }): Promise<void> {
    await remember(this.#db, once)
  }

  /** One transaction. Null when the key was used meanwhile. */
  async submit(
    submissions: readonly Submission[],
    once: (IdempotencyKey & { status: number; response: object }) | null,
  ): Promise<true | null> {
    return await retryConflicts(() =>
      this.#db.transaction().execute(async (tx) => {
        if (once !== null && !(await remember(tx, once))) return null
        const inOrder = submissions.toSorted((a, b) => (a.backend < b.backend ? -1 : 1))
        for (const submission of inOrder) await submitOne(tx, submission)
        return true
      }),
    )
  }
}

/** Released at the end of the transaction. */
export async function lockBackend(tx: Tx, backend: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`backend ${backend}`}, 0))`.execute(tx)
}

export async function remember(tx: Tx | Kysely<Database>, once: IdempotencyKey & { status: number; response: object }): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('idempotency_keys')
    .values({
      key: once.key,
      caller: once.caller,
      request_sha256: once.requestSha256,
      status: once.status,
      response: JSON.stringify(once.response),
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return (numInsertedOrUpdatedRows ?? 0n) > 0n
}

async function submitOne(tx: Tx, given: Submission): Promise<void> {
  await lockBackend(tx, given.backend)
  const submission = { ...given, nodes: await skipRemoved(tx, given.nodes) }
  const requested = submission.nodes.filter((node): node is PlannedNode => 'plan' in node)
  const rows = await lockRows(tx, submission, requested)
  const kind = intentKindOf(submission.kind)
  // Decided under the lock: an install may have begun or ended while the sources were read.
  const isRepinned = ({ nodeId }: PlannedNode): boolean => kind === 'upgrade' && isOpenInstall(rows.get(nodeId))
  const repinned = requested.filter(isRepinned)
  const planned = requested.filter((node) => !isRepinned(node))
  await tx
    .insertInto('operations')
    .values({
      id: submission.id,
      kind: submission.kind,
      backend: submission.backend,
      requested_by: submission.requestedBy,
      options: JSON.stringify(submission.options),
      ...(planned.length === 0 ? { finished_at: sql<string>`now()` } : {}),
    })
    .execute()
  if (submission.options['force'] === true) await drainUsers(tx, submission, planned)
  const isAttached = (node: PlannedNode): boolean => decideSubmission({ kind, plan: node.plan }, rows.get(node.nodeId) ?? null) === 'attach'
  const taken = planned.filter((node) => !isAttached(node))
  const { id, backend, rollout } = submission
  const begun = rollout === undefined ? new Map() : await beginRollout(tx, { id, backend, spec: rollout, nodes: taken, rows })
  await takeOver(tx, submission, { nodes: taken, begun, rows })
  await attach(tx, submission, planned.filter(isAttached))
  await skip(tx, submission, planned.length === 0 ? repinned : [])
  await repin(
    tx,
    submission,
    repinned.flatMap((node) => {
      const row = rows.get(node.nodeId)
      return row === undefined || row.plan.digest === node.plan.digest ? [] : [{ ...node, row }]
    }),
  )
  await deriveIntentPauses(tx, backend)
  await sql`
    select record_change(kind, id, false) from (
      select 0 as rank, 'node' as kind, unnest(${planned.map((node) => node.nodeId)}::text[]) as id
      union all select 1, 'operation', ${submission.id}
      order by rank, id
    ) c`.execute(tx)
}

async function skipRemoved(tx: Tx, nodes: readonly SubmittedNode[]): Promise<SubmittedNode[]> {
  const existing = await lockNodes(tx, sql`select unnest(${nodes.map(({ nodeId }) => nodeId)}::text[])`)
  return nodes.map((node) =>
    'skip' in node || existing.has(node.nodeId) ? node : { nodeId: node.nodeId, nodeName: node.nodeName, skip: 'node removed' },
  )
}

/**
 * For a forced deletion: drains the replicas of the backend on these nodes first. A model that runs nowhere else is unloaded,
 * because its load would install the backend again at once.
 */
async function drainUsers(tx: Tx, { backend }: Submission, nodes: readonly PlannedNode[]): Promise<void> {
  if (nodes.length === 0) return
  await sql`
    with drained as (
      update replicas set state = 'draining', drain_since = now(), ordinal = null
      where backend = ${backend} and node_id = any(${nodes.map((node) => node.nodeId)}::text[]) and state in ('starting', 'ready')
      returning id, model
    )
    update models m set is_unloaded = true, updated_at = now() where m.name in (select model from drained) and not exists (
      select from replicas r where r.model = m.name and r.state in ('starting', 'ready') and r.id not in (select id from drained)
    )`.execute(tx)
}

/** An open install is not part of an upgrade: it continues with the new version. */
const isOpenInstall = (row: IntentRecord | undefined): boolean =>
  row !== undefined && isOpen(row.intent) && row.intent.kind === 'install' && !row.intent.cancelRequested

export const intentKindOf = (kind: Submission['kind']): IntentKind =>
  kind === 'backend.install' ? 'install' : kind === 'backend.upgrade' ? 'upgrade' : 'delete'

async function lockRows(tx: Tx, { backend }: Submission, planned: readonly PlannedNode[]): Promise<Map<string, Row>> {
  if (planned.length === 0) return new Map()
  const ids = planned.map((node) => node.nodeId)
  const rows = await tx
    .selectFrom('intents')
    .selectAll()
    .select(
      sql<boolean>`state = 'applied' and exists (select from operation_nodes n where n.proving = intents.generation and n.status = 'open')`.as(
        'is_proving',
      ),
    )
    .where('backend', '=', backend)
    .where('node_id', 'in', ids)
    .orderBy('node_id')
    .forUpdate()
    .execute()
  // An intent that this version cannot read is superseded like any other; no plan of it is known.
  return new Map(
    rows.flatMap((row) => {
      const record = tryRead(() => fromIntentRow(row))
      return record === null ? [] : [[row.node_id, { ...record, isProving: row.is_proving }]]
    }),
  )
}

/** Supersedes the existing intent, also while it runs: the newer command replaces it on the worker. */
async function takeOver(
  tx: Tx,
  submission: Submission,
  { nodes, begun, rows }: { nodes: readonly PlannedNode[]; begun: ReadonlyMap<string, RolloutPlace>; rows: ReadonlyMap<string, Row> },
): Promise<void> {
  if (nodes.length === 0) return
  const { id, kind, backend } = submission
  const nodeIds = nodes.map(({ nodeId }) => nodeId)
  await sql`
    with old as (
      select * from intents where backend = ${backend} and node_id = any(${nodeIds}::text[]) order by node_id
    ), superseded as (
      update operation_nodes n set status = 'cancelled', message = 'superseded by operation ' || ${id}::text, finished_at = now(),
        attempts = o.attempts, current_bytes = o.current_bytes, total_bytes = o.total_bytes, percentage = o.percentage,
        generation = o.generation, proving = null, shown = null, phase = null
      from old o where (n.generation = o.generation or n.proving = o.generation) and n.status = 'open' returning n.operation_id
    ), logged as (
      insert into intent_events (node_id, backend, generation, epoch, type, detail)
      select node_id, backend, generation, epoch, 'superseded', jsonb_build_object('by', ${id}::text)
      from old where state in ('waiting', 'sending', 'working')
    )
    select update_finished_at(id), record_change('operation', id, false)
    from (select distinct operation_id as id from superseded order by id) s`.execute(tx)
  const stored = await storeIntents(
    tx,
    backend,
    nodes.map(({ nodeId, plan, isCurrent }) => ({
      ...{ nodeId, kind: intentKindOf(kind), opId: id, plan, awaitsRing: (begun.get(nodeId)?.ring ?? 0) > 1, wasSent: false },
      ...{ replaced: replacedBy(rows.get(nodeId)?.intent, id), note: isCurrent ? upToDateNote : '', totalBytes: plan.sizeBytes ?? 0 },
      ...{ event: 'requested', detail: { kind, operation: id } },
    })),
  )
  const generations = new Map(stored.map(({ nodeId, generation }) => [nodeId, generation]))
  const shown = nodes.map(({ nodeId, nodeName }) => ({
    ...{ node_id: nodeId, node_name: nodeName, generation: generations.get(nodeId), ...begun.get(nodeId) },
  }))
  await sql`
    insert into operation_nodes (operation_id, node_id, node_name, generation, status, ring, previous)
    select ${id}, node_id, node_name, generation, 'open', ring, previous from jsonb_to_recordset(${JSON.stringify(shown)}::jsonb)
      as s (node_id text, node_name text, generation bigint, ring integer, previous jsonb)`.execute(tx)
}

/** Both operations wait for the same intent, also for one that was applied and is still watched. */
async function attach(tx: Tx, submission: Submission, nodes: readonly PlannedNode[]): Promise<void> {
  if (nodes.length === 0) return
  await sql`
    with hurried as (
      update intents set next_at = case when state = 'waiting' then now() else next_at end,
        attempts = case when state = 'waiting' then 0 else attempts end,
        last_failure = case when state = 'waiting' then null else last_failure end, row_version = row_version + 1
      where backend = ${submission.backend} and node_id = any(${nodes.map((node) => node.nodeId)}::text[])
      returning node_id, backend, generation, epoch
    ), logged as (
      insert into intent_events (node_id, backend, generation, epoch, type, detail)
      select node_id, backend, generation, epoch, 'attached', jsonb_build_object('operation', ${submission.id}::text) from hurried
    ), shown as (
      insert into operation_nodes (operation_id, node_id, node_name, generation, status, ring, previous, proving, shown, phase, message,
        current_bytes, total_bytes, percentage)
      select ${submission.id}, h.node_id, n.name, case when o.proving is null then h.generation end, 'open', o.ring, o.previous, o.proving,
        o.shown, o.phase, coalesce(o.message, ''), coalesce(o.current_bytes, 0), coalesce(o.total_bytes, 0), coalesce(o.percentage, 0)
      from hurried h join nodes n on n.id = h.node_id left join lateral (
        select * from operation_nodes o where (o.generation = h.generation or o.proving = h.generation) and o.status = 'open' limit 1
      ) o on true
    )
    select record_change('operation', o.operation_id, false) from (
      select distinct n.operation_id from operation_nodes n join hurried h on h.generation = n.generation where n.status = 'open' order by 1
    ) o`.execute(tx)
}

/** Nodes with an open install are skipped by the upgrade; the message contains the reason. */
async function skip(tx: Tx, submission: Submission, repinned: readonly PlannedNode[]): Promise<void> {
  const waiting = repinned.map((node) => ({ ...node, skip: 'the open install continues with the newest version' }))
  const skipped = [...submission.nodes.flatMap((node) => ('skip' in node ? [node] : [])), ...waiting]
  if (skipped.length === 0) return
  await tx
    .insertInto('operation_nodes')
    .values(
      skipped.map((node) => ({
        operation_id: submission.id,
        node_id: node.nodeId,
        node_name: node.nodeName,
        status: 'skipped' as const,
        message: node.skip,
        finished_at: sql<string>`now()`,
      })),
    )
    .execute()
}

/** A new intent for the newest content, of the same operation. The operations that wait for the old one follow it. */
async function repin(tx: Tx, { id, backend }: Submission, repinned: readonly RepinnedNode[]): Promise<void> {
  const old = new Map(repinned.map(({ nodeId, row }) => [nodeId as string, row.intent.generation]))
  const stored = await storeIntents(
    tx,
    backend,
    repinned.map(({ nodeId, plan, row: { intent, bytes } }) => ({
      ...{ nodeId, kind: 'install', opId: intent.opId, plan: { ...plan, exact: true }, awaitsRing: false },
      ...{ wasSent: intent.state !== 'waiting' || intent.wasSent, replaced: replacedBy(intent, intent.opId) },
      ...{ note: '', totalBytes: plan.sizeBytes ?? bytes.total },
      ...{ event: 'repinned', detail: { operation: id } },
    })),
  )
  if (stored.length === 0) return
  const moved = stored.map(({ nodeId, generation }) => ({ from: old.get(nodeId), to: generation }))
  await sql`
    with followed as (
      update operation_nodes n set generation = m.to from jsonb_to_recordset(${JSON.stringify(moved)}::jsonb) as m ("from" bigint, "to" bigint)
      where n.generation = m.from and n.status = 'open' returning n.operation_id
    )
    select record_change('operation', o.operation_id, false) from (select distinct operation_id from followed order by 1) o`.execute(tx)
}
