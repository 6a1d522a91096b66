// Reads the final state: the database, and every operation on every controller.
import { administer, waitFor } from '@muster/testkit'
import { request } from './request.ts'
import type { AcceptedSubmission, FailedTry, FinalIntent, FinalModel, FinalNode, Observation, Owner } from './observation.ts'
import { statusesOf, type SeenOperation } from './watch-controllers.ts'
import type { ChaosWorld } from './world.ts'

export type Concluded = Pick<Observation, 'intents' | 'owners' | 'failedTries' | 'finalNodes' | 'finalModels' | 'operations'> & {
  /** Installs that loads of models submitted. */
  readonly submitted: readonly AcceptedSubmission[]
  /** `intent_events`, to explain a violation. */
  readonly history: readonly HistoryRow[]
}

export interface HistoryRow {
  readonly at: string
  readonly node: string
  readonly backend: string
  readonly generation: number
  readonly epoch: number
  readonly type: string
  readonly detail: unknown
}

const openWork = `
  select (select count(*) from intents where finished_at is null) + (select count(*) from replicas where state in ('starting', 'draining'))
    + (select count(*) from model_removals) as open`

/**
 * True when nothing is open any more: in the database, and on every controller. A replica that was replaced serves until every
 * controller routes to the new one, also one that was killed within the last 15 s.
 */
export async function isQuiet({ databaseUrl, controllers }: ChaosWorld): Promise<boolean> {
  const { rows } = await administer(databaseUrl, (client) => client.query<{ open: string }>(openWork))
  if (Number(rows[0]?.open) !== 0) return false
  const lists = await Promise.all(controllers.map(({ url }) => request(`${url}/api/operations?state=active`)))
  if (!lists.every(({ status, body }) => status === 200 && (body['operations'] as readonly unknown[]).length === 0)) return false
  const models = await Promise.all(controllers.map(({ url }) => request(`${url}/api/models`)))
  return models.every(({ status, body }) => status === 200 && (body['models'] as readonly SeenModel[]).every(isComplete))
}

const isComplete = ({ replicas_ready: ready, replicas_desired: desired }: SeenModel): boolean => ready === desired

export async function conclude(world: ChaosWorld, { asked, now }: { asked: readonly string[]; now: () => number }): Promise<Concluded> {
  const names = new Map(world.workers.map(({ id, name }) => [id, name]))
  const nameOf = (id: string): string => names.get(id) ?? id
  return await administer(world.databaseUrl, async (client) => {
    const read = async <T extends object>(text: string): Promise<T[]> => (await client.query<T>(text)).rows
    const intents = await read<Omit<FinalIntent, 'node'> & { node_id: string }>(`
      select node_id, backend, kind, generation::float8 as generation, plan ->> 'digest' as digest, (plan ->> 'exact')::boolean as "isExact",
        state, last_failure ->> 'message' as failure from intents`)
    const owners = await read<Owner>(`
      select generation::float8 as generation, detail ->> 'operation' as operation, type as how from intent_events
      where type in ('requested', 'attached', 'repinned', 'retried', 'returning')`)
    const failed = await read<Omit<FailedTry, 'node' | 'at'> & { node_id: string; ago: number }>(`
      select node_id, backend, generation::float8 as generation, extract(epoch from clock_timestamp() - at)::float8 * 1000 as ago
      from intent_events where type = 'failed'`)
    const readAt = now()
    const operations = await read<OperationRow>(`
      select id, kind, backend, requested_by, extract(epoch from clock_timestamp() - created_at)::float8 * 1000 as ago from operations`)
    const submitted = operations.flatMap((row) => submissionOf(row, readAt))
    const generations = await read<{ operation_id: string; node_name: string; generation: number | null }>(
      'select operation_id, node_name, generation::float8 as generation from operation_nodes',
    )
    const history = await read<Omit<HistoryRow, 'node'> & { node_id: string }>(`
      select to_char(at, 'HH24:MI:SS.MS') as at, node_id, backend, generation::float8 as generation, epoch::float8 as epoch, type, detail
      from intent_events order by id`)
    const followed = new Map(generations.map((row) => [`${row.operation_id} ${row.node_name}`, row.generation]))
    const named = <T extends { node_id: string }>({ node_id: id, ...row }: T) => ({ ...row, node: nameOf(id) })
    return {
      intents: intents.map(named),
      owners,
      failedTries: failed.map(named).map(({ ago, ...row }) => ({ ...row, at: readAt - ago })),
      ...{ operations: operations.map(({ id }) => id), submitted },
      finalNodes: await readOperations(world, [...asked, ...submitted.map(({ operation }) => operation)], followed),
      finalModels: await readModels(world),
      history: history.map(named),
    }
  })
}

async function readOperations(
  world: ChaosWorld,
  asked: readonly string[],
  followed: ReadonlyMap<string, number | null>,
): Promise<FinalNode[]> {
  const found = await Promise.all(
    world.controllers.map(async ({ url }, controller) => {
      const nodes: FinalNode[] = []
      for (const operation of asked) {
        const what = `${url} to show ${operation}`
        const answer = await waitFor(() => request(`${url}/api/operations/${operation}`), { what }).catch(() => null)
        // A controller that does not answer shows nothing; the rules report the missing operations.
        if (answer === null) break
        const { status, body } = answer
        if (status !== 200) continue
        for (const shown of statusesOf(body as unknown as SeenOperation)) {
          const generation = followed.get(`${operation} ${shown.node}`) ?? null
          nodes.push({ controller, operation, ...shown, generation })
        }
      }
      return nodes
    }),
  )
  return found.flat()
}

type OperationRow = Readonly<{ id: string; kind: string; backend: string | null; requested_by: string; ago: number }>

/** A load that lacks its backend submits an install of its own. Its transaction ends some time after it was created. */
const longestCommitMs = 5_000

function submissionOf({ id, kind, backend, requested_by: by, ago }: OperationRow, readAt: number): AcceptedSubmission[] {
  if (backend === null || kind !== 'backend.install' || !by.startsWith('load of model ')) return []
  const sentAt = readAt - ago
  return [{ operation: id, kind: 'install', backend, digest: null, nodes: null, sentAt, answeredAt: sentAt + longestCommitMs }]
}

interface SeenModel {
  readonly name: string
  readonly state: string
  readonly replicas_ready: number
  readonly replicas_desired: number
  readonly failure: Readonly<{ message: string }> | null
}

async function readModels({ controllers }: ChaosWorld): Promise<FinalModel[]> {
  const found = await Promise.all(
    controllers.map(async ({ url }, controller) => {
      const answer = await waitFor(() => request(`${url}/api/models`), { what: `${url} to list models` }).catch(() => null)
      const models = answer?.status === 200 ? (answer.body['models'] as readonly SeenModel[]) : []
      return models.map(({ name: model, state, replicas_ready: replicasReady, replicas_desired: replicasDesired, failure }) => ({
        ...{ controller, model, state, replicasReady, replicasDesired, failure: failure?.message ?? null },
      }))
    }),
  )
  return found.flat()
}
