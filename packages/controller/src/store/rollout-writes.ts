// Writes the decisions about a rollout in the transaction that read it, under the lock of its backend. The operation of the
// rollout and those that joined it show the same.
import { sql, type Transaction } from 'kysely'
import { type BackendName, Digest, InstalledBackend, type IntentEvent, type OperationId, stepIntent, unreachable } from '@muster/protocol'
import { fromIntentRow, type IntentRecord, type IntentRow, lockNodes, Plan, storeIntents } from './intent-rows.ts'
import { applyIntents } from './intents.ts'
import { nodeIsReachable } from './nodes.ts'
import { ringsOf, type RolloutSpec } from './operation-nodes.pure.ts'
import { tryRead } from './readable-rows.ts'
import type { RolloutAction } from './rollouts.ts'
import type { Database } from './tables.ts'

type Tx = Transaction<Database>
type Of<Do extends RolloutAction['do']> = Extract<RolloutAction, { do: Do }>
type RolloutKey = Readonly<{ id: OperationId; backend: string }>

export async function applyRollout(
  tx: Tx,
  { actions, ...about }: RolloutKey & { readonly actions: readonly RolloutAction[] },
): Promise<void> {
  const all = <Do extends RolloutAction['do']>(what: Do): Of<Do>[] => actions.filter((action): action is Of<Do> => action.do === what)
  const idsOf = (list: readonly { nodeId: string }[]): string[] => list.map(({ nodeId }) => nodeId)
  await stepIntents(tx, about, { nodeIds: idsOf(all('withdraw')), event: { type: 'withdrawn', note: 'rollout stopped' } })
  await stepIntents(tx, about, { nodeIds: idsOf(all('cancel')), event: { type: 'cancel_requested' } })
  const touched = [
    ...(await begin(tx, about, idsOf(all('begin')))),
    ...(await updateMessages(tx, about, all('message'))),
    ...(await settle(tx, about, [...all('prove'), ...all('fail'), ...all('returned')])),
    ...(await giveBack(tx, about, all('return'))),
  ]
  for (const action of actions) await writeOwn(tx, about, action)
  if (all('end').length > 0) touched.push(...(await settleRest(tx, about)))
  await sql`select update_finished_at(id) from (select distinct unnest(${touched}::text[]) as id order by id) o`.execute(tx)
  await sql`
    select record_change(kind, id, false) from (
      select 0 as rank, 'node' as kind, unnest(${idsOf([...all('begin'), ...all('return'), ...all('prove'), ...all('fail'), ...all('returned')])}::text[]) as id
      union select 1, 'operation', unnest(${[about.id, ...touched]}::text[]) order by rank, id
    ) c`.execute(tx)
}

const noWaits = { waits_for: null, waits_since: null }

/** The row of the rollout itself. */
async function writeOwn(tx: Tx, { id }: RolloutKey, action: RolloutAction): Promise<void> {
  const own = tx.updateTable('rollouts').where('operation_id', '=', id).where('finished_at', 'is', null)
  switch (action.do) {
    case 'enter':
      await own.set({ ring: action.ring, well_since: null, ...noWaits }).execute()
      return
    case 'wait':
      await own.set({ waits_for: action.left, waits_since: action.left === null ? null : sql<string>`now()` }).execute()
      return
    case 'watch':
      await own.set({ well_since: action.isWell ? sql<string>`now()` : null }).execute()
      return
    case 'stop':
      await own.set({ state: 'returning', failure: JSON.stringify(action.failure), well_since: null, ...noWaits }).execute()
      return
    case 'end':
      await own.set({ state: action.end, finished_at: sql<string>`now()`, well_since: null, ...noWaits }).execute()
      return
    case 'begin':
    case 'message':
    case 'prove':
    case 'withdraw':
    case 'cancel':
    case 'return':
    case 'returned':
    case 'fail':
      return
    default:
      return unreachable(action)
  }
}

/** Involves neither chance nor backoff. */
const noRetry = { retry: { baseMs: 0, maxMs: 0, maxAttempts: 1 }, chance: 0 }

async function stepIntents(
  tx: Tx,
  { id, backend }: RolloutKey,
  { nodeIds, event }: { nodeIds: readonly string[]; event: IntentEvent },
): Promise<void> {
  if (nodeIds.length === 0) return
  const { rows } = await sql<{ intent: IntentRow; now_ms: number }>`
    select to_jsonb(i) as intent, extract(epoch from now())::float8 * 1000 as now_ms from intents i
    where i.backend = ${backend} and i.op_id = ${id} and i.node_id = any(${nodeIds}::text[]) order by i.node_id for update of i`.execute(tx)
  const steps = rows.flatMap(({ intent, now_ms: now }) => {
    const from = tryRead(() => fromIntentRow(intent))
    const to = from === null ? null : stepIntent(from.intent, event, { now, ...noRetry })
    return from === null || to === null ? [] : [{ from, to, event: event.type, detail: { reason: 'rollout stopped' } }]
  })
  await applyIntents(tx, steps)
}

type TouchedNodes = Promise<string[]>

/** The operations that wait for these intents. */
const followers = sql`
  select distinct n.operation_id from moved m join operation_nodes n on n.generation = m.generation and n.status = 'open'`

async function begin(tx: Tx, { id, backend }: RolloutKey, nodeIds: readonly string[]): TouchedNodes {
  if (nodeIds.length === 0) return []
  const { rows } = await sql<{ operation_id: string }>`
    with moved as (
      update intents i set awaits_ring = false, next_at = now(), row_version = i.row_version + 1
      where i.backend = ${backend} and i.op_id = ${id} and i.node_id = any(${nodeIds}::text[]) and i.awaits_ring and i.state = 'waiting'
      returning i.node_id, i.backend, i.generation, i.epoch
    ), logged as (
      insert into intent_events (node_id, backend, generation, epoch, type) select node_id, backend, generation, epoch, 'begun' from moved
    ) ${followers}`.execute(tx)
  return rows.map((row) => row.operation_id)
}

async function updateMessages(tx: Tx, { id, backend }: RolloutKey, updates: readonly Of<'message'>[]): TouchedNodes {
  if (updates.length === 0) return []
  const given = JSON.stringify(updates.map(({ nodeId, message }) => ({ node_id: nodeId, message })))
  const { rows } = await sql<{ operation_id: string }>`
    update operation_nodes n set message = g.message
    from jsonb_to_recordset(${given}::jsonb) as g (node_id text, message text)
    join intents i on i.node_id = g.node_id and i.backend = ${backend} and i.op_id = ${id}
    where n.proving = i.generation and n.status = 'open' returning n.operation_id`.execute(tx)
  return rows.map((row) => row.operation_id)
}

function endOf(action: Of<'prove'> | Of<'fail'> | Of<'returned'>) {
  if (action.do === 'prove') return { node_id: action.nodeId, status: 'success', message: action.message, error: null, error_code: null }
  const [error, code] = action.do === 'fail' ? [action.failure.message, action.failure.code] : [action.error, 'rolled_back']
  return { node_id: action.nodeId, status: 'error', message: error, error, error_code: code }
}

/** Ends proven nodes, and those that failed and cannot go back. */
async function settle(tx: Tx, { id, backend }: RolloutKey, ended: readonly (Of<'prove'> | Of<'fail'> | Of<'returned'>)[]): TouchedNodes {
  if (ended.length === 0) return []
  const given = JSON.stringify(ended.map(endOf))
  const { rows } = await sql<{ operation_id: string }>`
    with settled as (
      update operation_nodes n set status = g.status, message = g.message, error = g.error, error_code = g.error_code,
        generation = n.proving, proving = null, shown = null, phase = null, finished_at = now()
      from jsonb_to_recordset(${given}::jsonb) as g (node_id text, status text, message text, error text, error_code text)
      join intents i on i.node_id = g.node_id and i.backend = ${backend} and i.op_id = ${id}
      where n.proving = i.generation and n.status = 'open' returning n.operation_id
    )
    select distinct operation_id from settled`.execute(tx)
  return rows.map((row) => row.operation_id)
}

/**
 * The rollout has ended. Settles nodes whose intent was applied meanwhile without being waited for, because no later step would
 * settle them.
 */
async function settleRest(tx: Tx, { id, backend }: RolloutKey): TouchedNodes {
  const { rows } = await sql<{ operation_id: string }>`
    with settled as (
      update operation_nodes n set status = case when e.error is null then 'success' else 'error' end, message = coalesce(e.error, i.note),
        error = e.error, error_code = case when e.error is not null then 'rolled_back' end, generation = n.proving, proving = null,
        shown = null, phase = null, finished_at = now()
      from intents i cross join lateral (select i.plan -> 'rollback' ->> 'error' as error) e
      where i.backend = ${backend} and i.op_id = ${id} and i.state = 'applied' and n.proving = i.generation and n.status = 'open'
      returning n.operation_id
    )
    select distinct operation_id from settled`.execute(tx)
  return rows.map((row) => row.operation_id)
}

/**
 * Replaces the applied intent with one for the previous version. The new intent carries the plan that it rolls back, for a retry,
 * and the error that is shown when it is applied. Operations that showed the node as done show it as open again.
 */
async function giveBack(tx: Tx, { id, backend }: RolloutKey, nodes: readonly Of<'return'>[]): TouchedNodes {
  if (nodes.length === 0) return []
  const errors = new Map<string, string>(nodes.map(({ nodeId, error }) => [nodeId, error]))
  await lockNodes(tx, sql`select unnest(${[...errors.keys()]}::text[])`)
  const { rows: applied } = await sql<{ intent: IntentRow; previous: unknown }>`
    select to_jsonb(i) as intent, own.previous from intents i
    join operation_nodes own on own.operation_id = ${id} and own.node_id = i.node_id
    where i.node_id = any(${[...errors.keys()]}::text[]) and i.backend = ${backend} and i.op_id = ${id} and i.state = 'applied'
    order by i.node_id for update of i`.execute(tx)
  const old = applied.flatMap(({ intent, previous }) => tryRead(() => ({ ...fromIntentRow(intent), previous: Plan.parse(previous) })) ?? [])
  const stored = await storeIntents(
    tx,
    backend,
    old.map(({ intent: { nodeId }, plan, previous }) => ({
      ...{ nodeId, kind: 'upgrade', opId: id, plan: { ...previous, rollback: { error: errors.get(nodeId) ?? '', plan } } },
      ...{ awaitsRing: false, wasSent: false, replaced: [], note: '', totalBytes: 0, event: 'returning', detail: { operation: id } },
    })),
  )
  const generations = new Map(stored.map(({ nodeId, generation }) => [nodeId, generation]))
  const moved = old.map(({ intent }) => ({ node_id: intent.nodeId, from: intent.generation, to: generations.get(intent.nodeId) }))
  const { rows } = await sql<{ operation_id: string }>`
    update operation_nodes n set status = 'open', generation = m.to, proving = null, shown = null, phase = null, message = '',
      finished_at = null
    from jsonb_to_recordset(${JSON.stringify(moved)}::jsonb) as m (node_id text, "from" bigint, "to" bigint)
    where n.node_id = m.node_id and (n.generation = m.from or n.proving = m.from) and n.status in ('open', 'success')
    returning n.operation_id`.execute(tx)
  return [...new Set(rows.map((row) => row.operation_id))]
}

type PlannedNode = Readonly<{ nodeId: string; nodeName: string; plan: Plan }>

export type RolloutPlace = Readonly<{ ring: number | null; previous: Plan | null }>
interface BeginRollout {
  readonly id: OperationId
  readonly backend: BackendName
  readonly spec: RolloutSpec
  readonly nodes: readonly PlannedNode[]
  /** The current intents of the nodes. */
  readonly rows: ReadonlyMap<string, IntentRecord>
}

/**
 * Starts a rollout with its submission: the ring of each node, and the version that it returns to. Empty: no node runs the
 * backend.
 */
export async function beginRollout(
  tx: Transaction<Database>,
  { id, backend, spec, nodes, rows }: BeginRollout,
): Promise<ReadonlyMap<string, RolloutPlace>> {
  const found = await readNodes(tx, backend, nodes)
  const known = nodes.map((node) => {
    const { has_replicas: hasReplicas = false, is_reachable: isReachable = false, listed = null } = found.get(node.nodeId) ?? {}
    const installed = InstalledBackend.safeParse(listed).data
    return { ...node, hasReplicas, isReachable, installed, isChanged: node.plan.digest === null || installed?.digest !== node.plan.digest }
  })
  const rings = ringsOf(known, spec)
  if (rings.size === 0) return new Map()
  await tx
    .insertInto('rollouts')
    .values({ operation_id: id, backend, spec: JSON.stringify(spec), state: 'running', rings: Math.max(...rings.values()) })
    .execute()
  return new Map(
    known.map(({ nodeId, plan, installed }) => [
      nodeId,
      { ring: rings.get(nodeId) ?? null, previous: previousOf(installed, { plan, last: rows.get(nodeId)?.plan }) },
    ]),
  )
}

type NodeFacts = { readonly has_replicas: boolean; readonly is_reachable: boolean; readonly listed: unknown }

async function readNodes(tx: Transaction<Database>, backend: string, nodes: readonly PlannedNode[]): Promise<Map<string, NodeFacts>> {
  if (nodes.length === 0) return new Map()
  const { rows } = await sql<NodeFacts & { node_id: string }>`
    select d.id as node_id,
      ${nodeIsReachable('d')} and not d.draining as is_reachable,
      exists (
        select from replicas r where r.node_id = d.id and r.state in ('starting', 'ready') and r.backend = ${backend}
      ) as has_replicas,
      (select b from jsonb_array_elements(d.inventory) b where b ->> 'name' = ${backend} limit 1) as listed
    from nodes d join node_pulses p on p.node_id = d.id where d.id = any(${nodes.map(({ nodeId }) => nodeId)}::text[])`.execute(tx)
  return new Map(rows.map((row) => [row.node_id, row]))
}

/**
 * A plan for the version that a node lists. Its content is named by digest and still on the node, so the source matters only if
 * it was lost; the other fields come from the intent that installed it, if that is known.
 */
function previousOf(installed: InstalledBackend | undefined, { plan, last }: { plan: Plan; last: Plan | undefined }): Plan | null {
  const digest = Digest.safeParse(installed?.digest)
  if (installed === undefined || !digest.success) return null
  const brought = last?.digest === digest.data ? last : undefined
  return {
    uri: installed.uri || (brought?.uri ?? null),
    mirrors: [...(brought?.mirrors ?? [])],
    digest: digest.data,
    version: installed.version,
    galleryUrl: installed.gallery_url,
    name: brought?.name ?? (installed.is_meta ? plan.name : null),
    alias: brought?.alias ?? plan.alias,
    exact: true,
    strategy: 'rolling',
    sizeBytes: null,
  }
}
