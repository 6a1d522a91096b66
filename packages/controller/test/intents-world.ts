// Intents on a real database and the bus in this process, with the loops of real controllers. Nodes are rows; a test serves the
// subjects of a worker.
import { fileURLToPath } from 'node:url'
import { type Bus, createLocalHub } from '@muster/bus'
import { type Log, silentLog, systemClock } from '@muster/host'
import { BackendName, Digest, NodeId, OperationId, type OperationView, Registration } from '@muster/protocol'
import { createTestDatabase, waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { createOperations, type OperationsDeps } from '../src/operations/create-operations.ts'
import { connectDatabase } from '../src/store/connect.ts'
import { nothingToFetch, type Plan } from '../src/store/intent-rows.ts'
import { migrate } from '../src/store/migrate.ts'
import { createStore } from '../src/store/store.ts'
import type { Submission } from '../src/store/submissions.ts'
import type { Database } from '../src/store/tables.ts'
import { createInbound } from '../src/work/exchange.ts'

const digestOf = (digit: string): Digest => Digest.parse(`sha256:${digit.repeat(64)}`)
export type IntentsWorld = Awaited<ReturnType<typeof startIntentsWorld>>
type Settings = Partial<OperationsDeps['settings']>
type Operations = ReturnType<typeof createOperations>
export type TestIntents = Readonly<{ operations: Operations; stop: () => Promise<void> }>

const quick: OperationsDeps['settings'] = {
  ...{ backendInstallTimeout: 60_000, backendUpgradeTimeout: 60_000, opStallTimeout: 60_000 },
  ...{ opRetryBase: 50, opRetryMax: 100, opMaxAttempts: 10, reconcileInterval: 10_000 },
}

export async function startIntentsWorld({ log = silentLog }: { log?: Log } = {}) {
  const database = await createTestDatabase()
  const hub = createLocalHub({ log })
  const connection = connectDatabase<Database>({ to: { url: database.url }, log, applicationName: 'test' })
  const directory = fileURLToPath(new URL('../src/store/migrations', import.meta.url))
  await migrate({ pool: connection.pool, directory, log, afterwards: async () => undefined })
  const { db } = connection
  const store = createStore(db, log)
  const running = new Set<TestIntents>()
  let made = 0

  const startController = (settings: Settings = {}, more: Partial<OperationsDeps> = {}): TestIntents => {
    const bus = hub.connect()
    const operations = createOperations({
      ...{ bus, store: createStore(db, log), settings: { ...quick, ...settings }, holder: `c-${++made}`, onSettled: () => undefined },
      ...{ recordLoadProgress: async () => [], step: () => undefined, random: () => 0.5, clock: systemClock, log, ...more },
    })
    const receivers = { result: { intent: operations.receiveResult }, progress: operations.receiveProgress }
    const stopping = new AbortController()
    const ended = Promise.all([operations.run(stopping.signal), createInbound({ bus, receivers, log }).run(stopping.signal)])
    const controller: TestIntents = {
      operations,
      async stop() {
        running.delete(controller)
        stopping.abort()
        await ended
        await bus.close()
      },
    }
    running.add(controller)
    return controller
  }
  const operation = async (id: OperationId, { operations }: TestIntents): Promise<OperationView> => {
    const found = await store.operations.find(id)
    if (found === null) throw new Error(`there is no operation ${id}`)
    return operations.view(found)
  }
  const until = (id: OperationId, by: TestIntents, what: string, condition: (view: OperationView) => boolean): Promise<OperationView> =>
    waitFor(
      async () => {
        const view = await operation(id, by)
        return condition(view) ? view : null
      },
      { what: `operation ${id} to be ${what}`, timeoutMs: 20_000 },
    )
  return {
    ...{ db, store, hub, startController, operation, until },
    /** A node that is there; `bus` is its connection. */
    async addNode(name: string, features: readonly string[] = ['async', 'progress']): Promise<{ node: NodeId; bus: Bus }> {
      const key = `U${(++made)
        .toString(36)
        .toUpperCase()
        .replaceAll(/[0189]/g, 'Z')
        .padStart(55, 'A')}`
      const node = NodeId.parse(name)
      const registration = Registration.parse({ name, public_key: key, incarnation: 'i', features })
      await store.nodes.insert(node, registration, { approvedBy: 'test', signedAt: new Date() })
      await sql`update node_pulses set liveness = 'present', answering = 'yes', last_seen_at = now(), incarnation = 'i'
        where node_id = ${name}`.execute(db)
      return { node, bus: hub.connect() }
    },
    async submit(kind: Submission['kind'], node: NodeId, { backend = 'llama', ...more }: Partial<Plan> & { backend?: string } = {}) {
      const id = OperationId.parse(`op-${++made}`)
      const plan =
        kind === 'backend.delete' ? nothingToFetch : { ...nothingToFetch, uri: 'oci://h/llama:1', digest: digestOf('1'), ...more }
      const nodes = [{ nodeId: node, nodeName: node, plan, isCurrent: false }]
      await store.submissions.submit([{ id, kind, backend: BackendName.parse(backend), requestedBy: 'test', options: {}, nodes }], null)
      for (const { operations } of running) operations.wake()
      return id
    },
    async [Symbol.asyncDispose]() {
      for (const controller of running) await controller.stop()
      await connection.close()
      await database.drop()
    },
  }
}
