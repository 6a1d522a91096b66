// Reads the final state: the database, and every operation on every controller.
import { administer, waitFor } from '@muster/testkit'
import { request } from './request.ts'
import type { FailedTry, FinalIntent, FinalNode, Observation, Owner } from './observation.ts'
import { statusOf, type SeenOperation } from './watch-controllers.ts'
import type { ChaosWorld } from './world.ts'

export type Concluded = Pick<Observation, 'intents' | 'owners' | 'failedTries' | 'finalNodes' | 'operations'> & {
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

const openIntents = `select count(*)::int as open from intents where finished_at is null`

/** True when nothing is open any more: in the database, and on every controller. */
export async function isQuiet({ databaseUrl, controllers }: ChaosWorld): Promise<boolean> {
  const { rows } = await administer(databaseUrl, (client) => client.query<{ open: number }>(openIntents))
  if (rows[0]?.open !== 0) return false
  const lists = await Promise.all(controllers.map(({ url }) => request(`${url}/api/operations?state=active`)))
  return lists.every(({ status, body }) => status === 200 && (body['operations'] as readonly unknown[]).length === 0)
}

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
      where type in ('requested', 'attached', 'repinned', 'retried')`)
    const failed = await read<Omit<FailedTry, 'node' | 'at'> & { node_id: string; ago: number }>(`
      select node_id, backend, generation::float8 as generation, extract(epoch from clock_timestamp() - at)::float8 * 1000 as ago
      from intent_events where type = 'failed'`)
    const readAt = now()
    const operations = await read<{ id: string }>('select id from operations')
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
      operations: operations.map(({ id }) => id),
      finalNodes: await readOperations(world, asked, followed),
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
        for (const node of (body as unknown as SeenOperation).nodes) {
          const generation = followed.get(`${operation} ${node.node_name}`) ?? null
          nodes.push({ controller, operation, node: node.node_name, ...statusOf(node), generation })
        }
      }
      return nodes
    }),
  )
  return found.flat()
}
