// Rollouts on a real database, without workers and without the loops of others: a test says what workers did, and moves
// replicas as those would who own them. Looks are taken as the loop of rollouts takes them.
import { fileURLToPath } from 'node:url'
import { silentLog } from '@muster/host'
import {
  BackendName,
  Digest,
  NodeId,
  OperationId,
  Registration,
  stepIntent,
  type Failure,
  type IntentEvent,
  type OperationNode,
  type OperationView,
} from '@muster/protocol'
import { createTestDatabase } from '@muster/testkit'
import { sql } from 'kysely'
import { viewOperation } from '../src/operations/view.ts'
import { decideRollout, factsOf } from '../src/rollouts/rollout.pure.ts'
import { connectDatabase } from '../src/store/connect.ts'
import { migrate } from '../src/store/migrate.ts'
import { nothingToFetch, type Plan } from '../src/store/intent-rows.ts'
import type { RolloutSpec } from '../src/store/operation-nodes.pure.ts'
import { createStore } from '../src/store/store.ts'
import type { Database } from '../src/store/tables.ts'

const digestOf = (digit: string): Digest => Digest.parse(`sha256:${digit.repeat(64)}`)
const backend = BackendName.parse('llama')
const retry = { retry: { baseMs: 1_000, maxMs: 1_000, maxAttempts: 3 }, chance: 0 }

type MoreReplica = Readonly<{ checked?: 'due' | 'passed' | 'failed'; model?: string; of?: string }>
export type RolloutWorld = Awaited<ReturnType<typeof startRolloutWorld>>

export async function startRolloutWorld() {
  const database = await createTestDatabase()
  const connection = connectDatabase<Database>({ to: { url: database.url }, log: silentLog, applicationName: 'test' })
  const directory = fileURLToPath(new URL('../src/store/migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log: silentLog, afterwards: async () => undefined })
  const store = createStore(connection.db)
  const { db } = connection
  let made = 0

  const operation = async (id: OperationId): Promise<OperationView> => {
    const found = await store.operations.find(id)
    if (found === null) throw new Error(`there is no operation ${id}`)
    return viewOperation(found)
  }
  const intentOf = async (node: string) => {
    const { rows, now } = await store.intents.find(NodeId.parse(node), backend)
    const [record] = rows
    if (record === undefined) throw new Error(`${node} has no intent`)
    return { record, now }
  }
  const step = async (node: string, event: IntentEvent): Promise<void> => {
    const { record, now } = await intentOf(node)
    const to = stepIntent(record.intent, event, { now, ...retry })
    if (to === null) throw new Error(`${event.type} means nothing on ${node}`)
    await store.intents.apply([{ from: record, to, event: event.type }])
  }
  const list = (node: string, digit: string) => {
    const listed = JSON.stringify([{ name: backend, digest: digestOf(digit), version: `v${digit}`, uri: 'oci://h/llama:latest' }])
    return sql`update nodes set inventory = ${listed}::jsonb, inventory_at = clock_timestamp() where id = ${node}`.execute(db)
  }
  return {
    ...{ db, store, operation, intentOf, step, list },
    async addNode(name: string, { digit = '1', replicas = 1 }: { digit?: string; replicas?: number } = {}): Promise<void> {
      const key = `U${(++made)
        .toString(36)
        .toUpperCase()
        .replaceAll(/[0189]/g, 'Z')
        .padStart(55, 'A')}`
      const registration = Registration.parse({ name, public_key: key, incarnation: 'i', features: ['async'] })
      await store.nodes.insert(NodeId.parse(name), registration, { approvedBy: 'test', signedAt: new Date() })
      await sql`update node_pulses set liveness = 'present', answering = 'yes', last_seen_at = now() where node_id = ${name}`.execute(db)
      await list(name, digit)
      for (let each = 0; each < replicas; each += 1) await this.addReplica(name, digit)
    },
    /** Away, or back. */
    async turn(node: string, isReachable: boolean): Promise<void> {
      await sql`update node_pulses set liveness = ${isReachable ? 'present' : 'gone'} where node_id = ${node}`.execute(db)
    },
    /** Without a digit it is still starting. */
    async addReplica(node: string, digit: string | null, more: MoreReplica = {}): Promise<string> {
      const id = `r-${++made}`
      const { model = 'tiny', of = 'llama', checked = 'passed' } = more
      const [state, digest] = digit === null ? ['starting', null] : ['ready', digestOf(digit)]
      await sql`insert into replicas (id, model, revision, node_id, backend, backend_digest, config, state, ready_at, created_at, slot, checked)
        values (${id}, ${model}, 'r', ${node}, ${of}, ${digest}, '{}', ${state}, ${digit === null ? null : sql`clock_timestamp()`},
          clock_timestamp(), ${made}, ${checked})`.execute(db)
      return id
    },
    async addModel(name: string): Promise<void> {
      await sql`insert into models (name, config, revision, backend)
        values (${name}, ${JSON.stringify({ name, backend })}::jsonb, 'r', 'llama')`.execute(db)
    },
    /** As replica sets do it: a new one comes up, the old ones are drained. */
    async moveReplicas(node: string, digit: string): Promise<void> {
      await this.addReplica(node, digit)
      await sql`update replicas set state = 'draining', drain_since = now() where node_id = ${node} and state = 'ready'
        and backend_digest <> ${digestOf(digit)}`.execute(db)
    },
    async upgrade(nodes: readonly string[], spec: Partial<RolloutSpec> = {}, digit = '2', more: Partial<Plan> = {}): Promise<OperationId> {
      const id = OperationId.parse(`op-${++made}`)
      const plan = {
        ...nothingToFetch,
        uri: 'oci://h/llama:latest',
        digest: digestOf(digit),
        version: `v${digit}`,
        strategy: 'rolling' as const,
        ...more,
      }
      const rollout = { canary: 1, maxParallel: 1, minHealthyMs: 10_000, ...spec }
      const submitted = nodes.map((name) => ({ nodeId: NodeId.parse(name), nodeName: name, plan, isCurrent: false }))
      await store.submissions.submit(
        [{ id, kind: 'backend.upgrade', backend, requestedBy: 'test', options: {}, rollout, nodes: submitted }],
        null,
      )
      return id
    },
    async remove(nodes: readonly string[]): Promise<OperationId> {
      const id = OperationId.parse(`op-${++made}`)
      const submitted = nodes.map((name) => ({ nodeId: NodeId.parse(name), nodeName: name, plan: nothingToFetch, isCurrent: false }))
      await store.submissions.submit([{ id, kind: 'backend.delete', backend, requestedBy: 'test', options: {}, nodes: submitted }], null)
      return id
    },
    /** Sends due intents; returns the names of their nodes. */
    async send(): Promise<string[]> {
      const { rows } = await store.intents.claim({ holder: 'c', leaseMs: 60_000, limit: 100 })
      for (const { intent } of rows) await step(intent.nodeId, { type: 'accepted' })
      return rows.map(({ intent }) => intent.nodeId as string).toSorted()
    },
    /** The worker has carried it out, and lists it. */
    async done(node: string): Promise<void> {
      const { record } = await intentOf(node)
      await step(node, { type: 'succeeded', note: '' })
      const digit = record.plan.digest?.at(-1) ?? ''
      await list(node, digit)
      // A rollback moves its replicas too.
      if (record.plan.rollback !== undefined) await this.moveReplicas(node, digit)
    },
    async failed(node: string, failure: Partial<Failure> = {}): Promise<void> {
      const { record } = await intentOf(node)
      const told: Failure = { code: 'internal', retry: 'never', message: 'it is broken', ...failure }
      await step(node, { type: 'failed', epoch: record.intent.epoch, failure: told })
    },
    /** Until nothing more follows; what was done. */
    async look(id: OperationId): Promise<string[]> {
      const done: string[] = []
      for (let round = 0; round < 20; round += 1) {
        const looked = await store.rollouts.advance(id, (rollout) => decideRollout(factsOf(rollout)))
        if (looked === null || looked.actions.length === 0) return done
        // How many it waits for is for itself alone.
        const told = looked.actions.filter((action) => action.do !== 'wait')
        done.push(...told.map((action) => ('nodeId' in action ? `${action.do} ${action.nodeId}` : action.do)))
      }
      throw new Error(`it never comes to rest: ${done.join(', ')}`)
    },
    /** So much time has passed since all was well. */
    async pass(ms: number): Promise<void> {
      await sql`update rollouts set well_since = well_since - make_interval(secs => ${ms / 1000})`.execute(db)
    },
    /** So much time has passed and nothing was moved. */
    async passWaiting(ms: number): Promise<void> {
      await sql`update rollouts set waits_since = waits_since - make_interval(secs => ${ms / 1000})`.execute(db)
    },
    async state(id: OperationId): Promise<string> {
      const { state } = await db.selectFrom('rollouts').select('state').where('operation_id', '=', id).executeTakeFirstOrThrow()
      return state
    },
    async row(id: OperationId, node: string): Promise<OperationNode> {
      const found = (await operation(id)).nodes.find((each) => each.node_name === node)
      if (found === undefined) throw new Error(`it has no node ${node}`)
      return found
    },
    /** `name:status` of every node. */
    async shown(id: OperationId): Promise<string> {
      return (await operation(id)).nodes.map(({ node_name: name, status }) => `${name}:${status}`).join(' ')
    },
    async clear(): Promise<void> {
      for (const table of ['operations', 'nodes', 'models', 'changes', 'intent_events'])
        await sql`delete from ${sql.table(table)}`.execute(db)
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await connection.close()
      await database.drop()
    },
  }
}
