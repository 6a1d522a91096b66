// The cluster under test: controllers, workers, nats-server and PostgreSQL as processes, with a line that can be cut between any
// two of them, and a registry with several versions of several backends.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import {
  adminKey,
  createProcesses,
  freePort,
  joinToken,
  makeTempDir,
  startNats,
  startRegistry,
  startTestPostgres,
  waitFor,
  type Processes,
} from '@muster/testkit'
import { natsMember, postgresMember, startMember, type Member } from './members.ts'
import { publishAll, serveOffers, type Image } from './offers.ts'
import { request } from './request.ts'
import { scanProcesses } from './watch-processes.ts'
import { natsCaller, nodeCaller, startWire, type Wire } from './wire.ts'

export interface Controller extends Member {
  readonly url: string
  /** Its lines to the bus and to the database, and the line on which workers reach it. */
  readonly wires: Readonly<{ bus: Wire; database: Wire; own: Wire }>
}
export interface Worker extends Member {
  readonly id: string
  /** Address of its own gateway. */
  readonly url: string
  readonly dataDir: string
  /** The marker in the environment of its engines. */
  readonly mark: string
  /** The line on which controllers reach its gateway. */
  readonly gateway: Wire
}
export type ChaosWorld = Awaited<ReturnType<typeof startChaosWorld>>

export interface ChaosSize {
  readonly controllers: number
  readonly workers: number
  readonly backends: readonly string[]
  readonly versions: readonly string[]
  readonly models: readonly string[]
}

const quick = [
  ...['--auto-approve', '--op-retry-base', '500ms', '--op-retry-max', '5s', '--reconcile-interval', '2s', '--op-max-attempts', '3'],
  ...['--heartbeat-interval', '500ms', '--node-timeout', '3s', '--node-offline-after', '30s'],
  ...['--allow-source', '127.0.0.0/8'],
]

export async function startChaosWorld(size: ChaosSize) {
  const ending = new AsyncDisposableStack()
  try {
    return await assemble(size, ending)
  } catch (error) {
    await ending.disposeAsync()
    throw error
  }
}

async function assemble(size: ChaosSize, ending: AsyncDisposableStack) {
  const directory = ending.use(await makeTempDir('chaos')).path
  const processes = ending.use(createProcesses())
  const [registry, postgres, nats] = await Promise.all([startRegistry(), startTestPostgres({ listen: 'tcp' }), startNats()])
  for (const each of [registry, postgres, nats]) ending.use(each)
  const wireTo = async (url: URL, readCaller?: (sent: string) => string | null): Promise<Wire> =>
    ending.use(
      await startWire({
        target: { host: url.hostname, port: Number(url.port) },
        ...(readCaller === undefined ? {} : { readCaller }),
      }),
    )
  const registryWire = await wireTo(new URL(registry.url))
  const busWire = await wireTo(new URL(nats.url), natsCaller)
  const images: Image[] = []
  const offers = ending.use(await serveOffers(() => images))
  const database = await postgres.createDatabase()
  const databaseUrl = postgres.url(database)
  const of = { directory, processes, natsUrl: nats.url, databaseUrl, gallery: offers.galleryUrl, busWire, wireTo }
  const [published, controllers] = await Promise.all([
    publishAll(size, { directory, processes, registry: `127.0.0.1:${registryWire.port}` }),
    Promise.all(Array.from({ length: size.controllers }, (_, index) => startController(index, of))),
  ])
  images.push(...published)
  await Promise.all(controllers.map(({ url }) => untilAnswers(`${url}/readyz`)))
  const workers = await Promise.all(
    Array.from({ length: size.workers }, (_, index) => {
      const joined = controllers[index % size.controllers]
      if (joined === undefined) throw new Error('a worker joins a controller')
      return startWorker(index, { ...of, joined })
    }),
  )
  const members: readonly Member[] = [...controllers, ...workers, natsMember(nats), postgresMember(postgres)]
  // First: these need no orderly stop. Engines outlive their worker.
  ending.defer(async () => {
    await Promise.all([...controllers, ...workers].map((member) => member.kill()))
    const marks = new Set(workers.map(({ mark }) => mark))
    for (const { pid, mark } of scanProcesses()) if (marks.has(mark)) process.kill(pid, 'SIGKILL')
  })
  return {
    ...{ directory, databaseUrl, controllers, workers, members, images, offers, busWire, registryWire },
    models: size.models,
    [Symbol.asyncDispose]: () => ending.disposeAsync(),
  }
}

type Place = Readonly<{
  directory: string
  processes: Processes
  natsUrl: string
  databaseUrl: string
  gallery: string
  /** The line from workers to the bus. */
  busWire: Wire
  wireTo: (url: URL, readCaller?: (sent: string) => string | null) => Promise<Wire>
}>

async function startController(index: number, { directory, processes, ...place }: Place): Promise<Controller> {
  const port = await freePort()
  const name = `controller-${index}`
  const url = `http://127.0.0.1:${port}`
  const [bus, database, own] = await Promise.all([
    place.wireTo(new URL(place.natsUrl)),
    place.wireTo(new URL(place.databaseUrl)),
    place.wireTo(new URL(url), nodeCaller),
  ])
  const args = [
    ...['controller', '--port', String(port), '--public-url', `http://127.0.0.1:${own.port}`],
    ...['--data-dir', join(directory, name), '--gallery', `chaos=${place.gallery}`],
    ...['--nats-url', `nats://127.0.0.1:${bus.port}`, '--worker-nats-url', `nats://127.0.0.1:${place.busWire.port}`, ...quick],
  ]
  const databaseUrl = Object.assign(new URL(place.databaseUrl), { port: String(database.port) }).href
  const env = { MUSTER_DATABASE_URL: databaseUrl, MUSTER_ADMIN_KEY: adminKey, MUSTER_JOIN_TOKEN: joinToken }
  const member = await startMember(name, 'controller', () => processes.muster(args, { env }))
  return { ...member, url, wires: { bus, database, own } }
}

async function startWorker(index: number, { directory, processes, wireTo, joined }: Place & { joined: Controller }): Promise<Worker> {
  const name = `worker-${index}`
  const url = `http://127.0.0.1:${await freePort()}`
  const gateway = await wireTo(new URL(url))
  const dataDir = join(directory, name)
  const address = `http://127.0.0.1:${joined.wires.own.port}`
  const args = [
    ...['worker', '--join', address, '--token', joinToken, '--name', name, '--data-dir', dataDir, '--capability', 'default'],
    ...['--gateway-listen', new URL(url).host, '--gateway-url', `http://127.0.0.1:${gateway.port}`],
  ]
  const member = await startMember(name, 'worker', () => processes.muster(args))
  await untilAnswers(`${url}/readyz`)
  const id = await waitFor(async () => await healthyNode(joined.url, name), { what: `${name} to be healthy` }).catch((error: unknown) => {
    throw new Error(`${String(error)}\n${member.output()}\n${joined.output()}`, { cause: error })
  })
  const mark = createHash('sha256').update(dataDir).digest('hex').slice(0, 32)
  return { ...member, id, url, dataDir, mark, gateway }
}

async function healthyNode(controllerUrl: string, name: string): Promise<string | null> {
  const { body } = await request(`${controllerUrl}/api/nodes`)
  const nodes = body['nodes'] as readonly { id: string; name: string; status: string }[]
  return nodes.find((node) => node.name === name && node.status === 'healthy')?.id ?? null
}

async function untilAnswers(url: string): Promise<void> {
  await waitFor(async () => (await request(url)).status === 200, { what: `${url} to be 200` })
}
