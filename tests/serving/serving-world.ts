// A real controller on a real database, and rows that say which replicas run where: behind them are stub gateways.
import { join } from 'node:path'
import { newId } from '@muster/host'
import { backendList, NodeId } from '@muster/protocol'
import { createTestDatabase, makeTempDir, startTestController, waitFor, type TestController } from '@muster/testkit'
import type { Log } from '@muster/host'
import { Client } from 'pg'
import { inject } from 'vitest'
import { startStubGateway, type StubGateway } from './stub-gateway.ts'

export interface ServingWorld extends AsyncDisposable {
  readonly controller: TestController
  readonly databaseUrl: string
  readonly db: Client
  /** One more, on the same database and bus; it ends with the world. */
  addController(): Promise<TestController>
  /** A healthy node with its gateway. */
  addNode(name: string): Promise<StubGateway>
  addModel(name: string, scheduling?: object): Promise<void>
  /** A model with a replica that is ready on each of these; returns their ids. */
  serve(model: string, nodes: readonly StubGateway[], scheduling?: object): Promise<string[]>
  /** A replica that is ready there; returns its id once the controller routes to it. */
  addReplica(model: string, node: StubGateway, options?: ReplicaOptions): Promise<string>
  /** Waits until the controller knows that many replicas of it. */
  untilRoutable(model: string): Promise<void>
  chat(model: string, more?: object, options?: ChatOptions): Promise<Response>
}
export interface ReplicaOptions {
  /** It came up in the place of others that serve, and has to be asked something first. */
  readonly isDue?: boolean
}
export interface ChatOptions {
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
  /** Which controller is asked; the first unless told. */
  readonly at?: TestController
}

export interface WorldOptions {
  readonly flags?: Record<string, string | boolean>
  readonly log?: Log
  /** Address of PostgreSQL; the shared server by default. */
  readonly serverUrl?: string
}

export async function startServingWorld(options: WorldOptions = {}): Promise<ServingWorld> {
  const directory = await makeTempDir()
  const database = await createTestDatabase({ serverUrl: options.serverUrl ?? inject('postgresUrl') })
  const start = (name: string, hub?: TestController['hub']): Promise<TestController> =>
    startTestController({
      directory: join(directory.path, name),
      databaseUrl: database.url,
      ...(hub === undefined ? {} : { hub }),
      ...(options.flags === undefined ? {} : { flags: options.flags }),
      ...(options.log === undefined ? {} : { log: options.log }),
    })
  const controller = await start('first')
  const others: TestController[] = []
  const db = new Client({ connectionString: database.url })
  await db.connect()
  db.on('error', () => undefined) // the server may be taken away
  const gateways: StubGateway[] = []
  const ordinals = new Map<string, number>()
  const bus = controller.hub.connect()

  async function addNode(name: string): Promise<StubGateway> {
    const nodeId = `n-${newId()}`
    const secret = newId()
    const gateway = await startStubGateway({ nodeId, secret })
    gateways.push(gateway)
    // Controllers ask for it a few seconds after their start; who does not answer gets no requests.
    bus.serve(backendList, { node: NodeId.parse(nodeId) }, async () => ({ backends: [] }))
    await db.query(
      `insert into nodes (id, public_key, name, node_type, version, features, os, arch, capability, gateway_url, reported_labels, incarnation,
         approved_at, approved_by, gateway_secret)
       values ($1, $2, $3, 'backend', '1', '{async}', 'linux', 'x64', 'default', $4, '{}', 'i-1', now(), 'test', $5)`,
      [nodeId, `U${newId().toUpperCase().padEnd(55, 'A')}`, name, gateway.url, secret],
    )
    await db.query(
      `insert into node_pulses (node_id, resources, liveness, answering, last_seen_at) values ($1, '{}', 'present', 'yes', now() + interval '1 day')`,
      [nodeId],
    )
    return gateway
  }

  async function untilRoutable(model: string): Promise<void> {
    await waitFor(async () => (await controller.api.get(`/v1/models/${encodeURIComponent(model)}`)).body['id'] === model, {
      what: `model ${model} to be known`,
    })
  }

  async function insertModel(name: string, more: object): Promise<void> {
    const scheduling = { max_replicas: 0, ...more }
    const config = { name, backend: 'stub', parameters: {}, files: [], options: {}, known_usecases: [], scheduling }
    await db.query(`insert into models (name, config, revision, backend, used_at) values ($1, $2, 'r1', 'stub', now())`, [name, config])
  }

  /** Adds the replica with the load that owns it, as the loads engine would have left them. */
  async function insertReplica(model: string, node: StubGateway, { isDue = false }: ReplicaOptions = {}): Promise<string> {
    const id = `r-${newId()}`
    const ordinal = ordinals.get(model) ?? 0
    ordinals.set(model, ordinal + 1)
    await db.query('update models set requested_replicas = $2, used_at = now() where name = $1', [model, ordinal + 1])
    await db.query(
      `insert into replicas (id, model, revision, ordinal, slot, node_id, backend, config, state, ready_at, op_id, checked)
       values ($1, $2, 'r1', $3, $3, $4, 'stub', '{}', 'ready', now(), $1, $5)`,
      [id, model, ordinal, node.nodeId, isDue ? 'due' : 'passed'],
    )
    await db.query(
      `insert into loads (model, purpose, ordinal, revision, state, node_id, replica_id, op_id, epoch) values ($1, 'serve', $2, 'r1', 'ready', $3, $4, $4, 1)`,
      [model, ordinal, node.nodeId, id],
    )
    return id
  }

  const stop = async (): Promise<void> => {
    for (const each of [controller, ...others]) await each.stop()
    await bus.close()
    await db.end().catch(() => undefined)
    for (const gateway of gateways) await gateway.stop()
    await database.drop().catch(() => undefined)
    await directory.remove()
  }
  return {
    controller,
    databaseUrl: database.url,
    db,
    addNode,
    async addController() {
      const added = await start(`other-${others.length}`, controller.hub)
      others.push(added)
      return added
    },
    async addModel(name, scheduling = {}) {
      await insertModel(name, scheduling)
      await untilRoutable(name)
    },
    async serve(name, nodes, scheduling = {}) {
      // In one transaction: the loads engine sees all of it or nothing.
      await db.query('begin')
      await insertModel(name, scheduling)
      const ids: string[] = []
      for (const node of nodes) ids.push(await insertReplica(name, node))
      await db.query('commit')
      await untilRoutable(name)
      return ids
    },
    async addReplica(model, node, how) {
      await db.query('begin')
      const id = await insertReplica(model, node, how)
      await db.query('commit')
      return id
    },
    untilRoutable,
    chat: (model, more = {}, { headers = {}, signal, at = controller } = {}) =>
      fetch(`${at.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }], ...more }),
        ...(signal === undefined ? {} : { signal }),
      }),
    [Symbol.asyncDispose]: stop,
  }
}
