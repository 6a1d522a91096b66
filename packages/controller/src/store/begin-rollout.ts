// How a rollout comes to be, in the transaction of its wish: which node is in which ring, and what each goes back to if it fails.
import { Digest, InstalledBackend, type BackendName, type OperationId } from '@muster/protocol'
import { sql, type Transaction } from 'kysely'
import type { IntentRecord } from './intent-rows.ts'
import type { Plan } from './plan.ts'
import { ringsOf, type RolloutSpec } from './rings.ts'
import { nodeIsHere } from './pulses.ts'
import type { Database } from './tables.ts'

type Tx = Transaction<Database>
type Planned = Readonly<{ nodeId: string; nodeName: string; plan: Plan }>

export type Begun = Readonly<{ ring: number | null; previous: Plan | null }>
export interface BeginRollout {
  readonly id: OperationId
  readonly backend: BackendName
  readonly spec: RolloutSpec
  readonly nodes: readonly Planned[]
  /** What was wished there before. */
  readonly rows: ReadonlyMap<string, IntentRecord>
}

/** What is to be noted of each node. Empty: nothing runs the backend, so there is nothing to be careful with. */
export async function beginRollout(tx: Tx, { id, backend, spec, nodes, rows }: BeginRollout): Promise<ReadonlyMap<string, Begun>> {
  const found = await readNodes(tx, backend, nodes)
  const known = nodes.map((node) => {
    const { has_replicas: hasReplicas = false, is_here: isHere = false, listed = null } = found.get(node.nodeId) ?? {}
    const installed = InstalledBackend.safeParse(listed).data
    return { ...node, hasReplicas, isHere, installed, isChanged: node.plan.digest === null || installed?.digest !== node.plan.digest }
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

type Found = { readonly has_replicas: boolean; readonly is_here: boolean; readonly listed: unknown }

async function readNodes(tx: Tx, backend: string, nodes: readonly Planned[]): Promise<Map<string, Found>> {
  if (nodes.length === 0) return new Map()
  const { rows } = await sql<Found & { node_id: string }>`
    select d.id as node_id,
      ${nodeIsHere('d')} and not d.draining as is_here,
      exists (
        select from replicas r where r.node_id = d.id and r.state in ('starting', 'ready') and r.backend = ${backend}
      ) as has_replicas,
      (select b from jsonb_array_elements(d.inventory) b where b ->> 'name' = ${backend} limit 1) as listed
    from nodes d join node_pulses p on p.node_id = d.id where d.id = any(${nodes.map(({ nodeId }) => nodeId)}::text[])`.execute(tx)
  return new Map(rows.map((row) => [row.node_id, row]))
}

/**
 * The version that a node lists, as a plan. Its content is named by digest and is still there, so where it came from matters
 * only if it was lost; what a list does not say is taken from the wish that brought it, if that is known.
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
