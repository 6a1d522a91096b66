// A gateway with real backend processes behind it, and nothing else of a worker: what the supervisor would do is done here
// in the plainest way.
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { mintGatewayToken, silentLog, systemClock } from '@muster/host'
import { BackendName, gatewayScope, ModelConfig, NodeId, ReplicaId, Resources } from '@muster/protocol'
import { createProcesses, freePort, makeTempDir, type StartedProcess } from '@muster/testkit'
import type { BackendAddress, BackendConnection, Driver, ReplicaSpec } from '../src/drivers/driver.ts'
import { type Gateway, openGateway, type RouteDeps } from '../src/gateway/gateway.ts'
import { nothingBehind } from './nothing-behind.ts'
import { createWorkerMetrics } from '../src/metrics.ts'

export const identity = { nodeId: NodeId.parse('n-1'), secret: 'a'.repeat(64) }

export type SpecFacts = Readonly<{
  model?: string
  directory: string
  description: ReplicaSpec['description']
  options?: ModelConfig['options']
  parameters?: Record<string, unknown>
  contextSize?: number
  modelPath?: string
  usecases?: string[]
  template?: ModelConfig['template']
  roles?: ModelConfig['roles']
  function?: ModelConfig['function']
}>

export function specOf(id: string, facts: SpecFacts): ReplicaSpec {
  const { model = 'm', directory, description, options = {}, parameters = {}, contextSize, modelPath = null, usecases = [] } = facts
  const config = ModelConfig.parse({
    name: model,
    backend: 'scripted',
    options,
    parameters,
    known_usecases: usecases,
    template: facts.template,
    roles: facts.roles,
    function: facts.function,
    ...(contextSize === undefined ? {} : { context_size: contextSize }),
  })
  return {
    replicaId: ReplicaId.parse(id),
    model: config.name,
    backend: BackendName.parse('scripted'),
    directory,
    description,
    config,
    modelDirectory: join(directory, 'models'),
    modelPath,
  }
}

export interface ServedReplica {
  readonly spec: ReplicaSpec
  readonly address: BackendAddress
  readonly process: StartedProcess
  readonly connection: BackendConnection
}

export interface ServingWorld extends AsyncDisposable {
  readonly gateway: Gateway
  readonly driver: Driver
  /** Started, ready, and admitted by its id. */
  serve(spec: ReplicaSpec): Promise<ServedReplica>
  start(spec: ReplicaSpec, address?: BackendAddress): Promise<{ process: StartedProcess; address: BackendAddress }>
  admit(id: string, connection: BackendConnection | 'draining'): void
  inFlight(): number
  newAddress(spec: ReplicaSpec): Promise<BackendAddress>
}

export async function openServingWorld(driver: Driver, over: Partial<RouteDeps> = {}): Promise<ServingWorld> {
  const processes = createProcesses()
  const directory = await makeTempDir('serving')
  const connections = new Map<string, BackendConnection | 'draining'>()
  let inFlight = 0
  let sockets = 0
  const admit: RouteDeps['replicas']['admit'] = (id) => {
    const connection = connections.get(id) ?? 'gone'
    if (typeof connection === 'string') return connection
    inFlight += 1
    return { connection, inFlight: () => inFlight, [Symbol.dispose]: () => void (inFlight -= 1) }
  }
  const metrics = createWorkerMetrics({ resources: () => Resources.parse({}), isBusConnected: () => true })
  const gateway = await openGateway({
    ...nothingBehind,
    isReady: () => true,
    identity: () => identity,
    metrics,
    log: silentLog,
    replicas: { admit },
    ...over,
    host: '127.0.0.1',
    port: 0,
  })
  const newAddress = async (spec: ReplicaSpec): Promise<BackendAddress> =>
    driver.addressKind(spec) === 'tcp'
      ? { kind: 'tcp', host: '127.0.0.1', port: await freePort() }
      : { kind: 'unix', path: join(directory.path, `${++sockets}.sock`) }
  const start: ServingWorld['start'] = async (spec, wanted) => {
    const address = wanted ?? (await newAddress(spec))
    const { argv, env } = driver.launch(spec, address)
    const [program, ...args] = argv
    return { address, process: await processes.start(program, { args, env, cwd: spec.directory }) }
  }
  return {
    gateway,
    driver,
    start,
    newAddress,
    admit: (id, connection) => void connections.set(id, connection),
    inFlight: () => inFlight,
    async serve(spec) {
      const { process, address } = await start(spec)
      await driver.waitUntilReady(spec, address, { signal: AbortSignal.timeout(15_000), onSign: () => undefined })
      const connection = driver.connect(spec, address)
      connections.set(spec.replicaId, connection)
      return { spec, address, process, connection }
    },
    async [Symbol.asyncDispose]() {
      for (const each of connections.values()) if (typeof each === 'object') await each.close()
      await gateway.close()
      await processes.stopAll()
      await directory.remove()
    },
  }
}

export const driverClock = systemClock

export const tokenFor = (replica: string, over: Partial<{ nodeId: string; secret: string }> = {}): string =>
  mintGatewayToken({ ...identity, ...over, scope: gatewayScope.replica(ReplicaId.parse(replica)), controller: 'c-1' })

export type GatewayRequest = Readonly<{
  replica: string
  path?: string
  method?: string
  body?: unknown
  token?: string
  headers?: Record<string, string>
  signal?: AbortSignal
}>

const agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY })

/** Resolves with the head of the response; its body is not read. */
export async function ask({ gateway }: Pick<ServingWorld, 'gateway'>, options: GatewayRequest): Promise<IncomingMessage> {
  const { replica, path = '/v1/chat/completions', method = 'POST', body, token = tokenFor(replica), headers = {}, signal } = options
  const request = httpRequest({
    host: '127.0.0.1',
    port: gateway.port,
    path: `/replicas/${replica}${path}`,
    method,
    agent,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
    ...(signal === undefined ? {} : { signal }),
  })
  // Errors appear on the response or through the signal.
  request.on('error', () => undefined)
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve).once('error', reject)
  })
  request.end(body === undefined ? undefined : typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body))
  return await answered
}

export async function readText(response: IncomingMessage): Promise<{ text: string; isWhole: boolean }> {
  const chunks: Buffer[] = []
  response.on('data', (chunk: Buffer) => chunks.push(chunk))
  response.on('error', () => undefined)
  await new Promise((resolve) => response.once('close', resolve))
  return { text: Buffer.concat(chunks).toString('utf8'), isWhole: response.complete }
}

export const chat = (text: string, more: object = {}) => ({ model: 'm', messages: [{ role: 'user', content: text }], ...more })
