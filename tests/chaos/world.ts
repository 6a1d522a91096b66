// The cluster that is killed: three controllers, six workers, nats-server and PostgreSQL as processes, each of which can be
// killed and started again on what it left, and a registry with several versions of several backends, which stays.
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { readFileSync } from 'node:fs'
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
  type Registry,
  type StartedProcess,
} from '@muster/testkit'
import { noise } from '../install/worker-world.ts'
import { request } from './request.ts'

/** A process that can be killed. */
export interface Member {
  readonly name: string
  readonly kind: 'controller' | 'worker' | 'nats' | 'postgres'
  isUp(): boolean
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Resolves when it was started, not when it is ready. */
  start(): Promise<void>
  /** Its output, over all its lives. */
  output(): string
}
export interface Controller extends Member {
  readonly url: string
}
export interface Worker extends Member {
  readonly id: string
  /** Address of its own gateway. */
  readonly url: string
  readonly dataDir: string
}
export interface Image {
  readonly backend: string
  readonly version: string
  readonly uri: string
  readonly digest: string
}
export type ChaosWorld = Awaited<ReturnType<typeof startChaosWorld>>

export interface ChaosSize {
  readonly controllers: number
  readonly workers: number
  readonly backends: readonly string[]
  readonly versions: readonly string[]
}

const quick = [
  ...['--auto-approve', '--op-retry-base', '500ms', '--op-retry-max', '5s', '--reconcile-interval', '2s'],
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
  const [registry, postgres, nats] = await Promise.all([startRegistry(), startTestPostgres(), startNats()])
  for (const each of [registry, postgres, nats]) ending.use(each)
  const gallery = ending.use(await serveGallery())
  const images = await publishAll(size, { directory, processes, registry })
  const databaseUrl = postgres.url(await postgres.createDatabase())
  const of = { directory, processes, natsUrl: nats.url, databaseUrl, gallery: gallery.url }
  const controllers = await Promise.all(Array.from({ length: size.controllers }, (_, index) => startController(index, of)))
  await Promise.all(controllers.map(({ url }) => untilAnswers(`${url}/readyz`)))
  const workers = await Promise.all(
    Array.from({ length: size.workers }, (_, index) =>
      startWorker(index, { ...of, join: controllers[index % size.controllers]?.url ?? '' }),
    ),
  )
  const members: readonly Member[] = [...controllers, ...workers, natsMember(nats), postgresMember(postgres)]
  // First of all: these need no orderly stop.
  ending.defer(async () => void (await Promise.all([...controllers, ...workers].map((member) => member.kill()))))
  return {
    ...{ directory, databaseUrl, controllers, workers, members, images },
    offer: gallery.offer,
    [Symbol.asyncDispose]: () => ending.disposeAsync(),
  }
}

type Place = Readonly<{ directory: string; processes: Processes; natsUrl: string; databaseUrl: string; gallery: string }>

async function startController(index: number, { directory, processes, natsUrl, databaseUrl, gallery }: Place): Promise<Controller> {
  const port = await freePort()
  const dataDir = join(directory, `controller-${index}`)
  const args = [
    'controller',
    '--port',
    String(port),
    '--data-dir',
    dataDir,
    '--nats-url',
    natsUrl,
    '--gallery',
    `chaos=${gallery}`,
    ...quick,
  ]
  const env = { MUSTER_DATABASE_URL: databaseUrl, MUSTER_ADMIN_KEY: adminKey, MUSTER_JOIN_TOKEN: joinToken }
  const member = await startMember(`controller-${index}`, 'controller', () => processes.muster(args, { env }))
  return { ...member, url: `http://127.0.0.1:${port}` }
}

async function startWorker(index: number, { directory, processes, join: joined }: Place & { join: string }): Promise<Worker> {
  const name = `worker-${index}`
  const port = await freePort()
  const dataDir = join(directory, name)
  const own = ['--name', name, '--data-dir', dataDir, '--gateway-listen', `127.0.0.1:${port}`, '--capability', 'default']
  const args = ['worker', '--join', joined, '--token', joinToken, ...own]
  const member = await startMember(name, 'worker', () => processes.muster(args))
  const url = `http://127.0.0.1:${port}`
  await untilAnswers(`${url}/readyz`)
  const id = await waitFor(async () => await healthyNode(joined, name), { what: `${name} to be healthy` })
  return { ...member, id, url, dataDir }
}

async function healthyNode(controllerUrl: string, name: string): Promise<string | null> {
  const { body } = await request(`${controllerUrl}/api/nodes`)
  const nodes = body['nodes'] as readonly { id: string; name: string; status: string }[]
  return nodes.find((node) => node.name === name && node.status === 'healthy')?.id ?? null
}

async function startMember(name: string, kind: Member['kind'], launch: () => Promise<StartedProcess>): Promise<Member> {
  const lives = [await launch()]
  return {
    ...{ name, kind },
    isUp: () => lives.at(-1)?.hasExited() === false,
    async kill() {
      lives.at(-1)?.kill('SIGKILL')
      await lives.at(-1)?.exited
    },
    start: async () => void lives.push(await launch()),
    output: () => lives.map((life, index) => `── life ${index + 1}\n${life.output()}`).join('\n'),
  }
}

function natsMember(nats: Awaited<ReturnType<typeof startNats>>): Member {
  let isUp = true
  return {
    ...{ name: 'nats', kind: 'nats' },
    isUp: () => isUp,
    async kill() {
      isUp = false
      await nats.kill('SIGKILL')
    },
    async start() {
      await nats.restart()
      isUp = true
    },
    output: () => '',
  }
}

function postgresMember(postgres: Awaited<ReturnType<typeof startTestPostgres>>): Member {
  let isUp = true
  return {
    ...{ name: 'postgres', kind: 'postgres' },
    isUp: () => isUp,
    async kill() {
      isUp = false
      const family = childrenOf(postgres.pid)
      postgres.kill('SIGKILL')
      // Its sessions end when they notice; a new server does not start beside them.
      await waitFor(() => family.every((pid) => !isRunning(pid)), { what: 'the sessions of the killed server to end' })
    },
    async start() {
      await postgres.restart()
      isUp = true
    },
    output: () => '',
  }
}

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

async function untilAnswers(url: string): Promise<void> {
  await waitFor(async () => (await request(url)).status === 200, { what: `${url} to be 200` })
}

type Publishing = Readonly<{ directory: string; processes: Processes; registry: Registry }>

/** Half of the backends are large enough that they are killed while they are fetched. */
async function publishAll({ backends, versions }: ChaosSize, publishing: Publishing): Promise<Image[]> {
  const wanted = backends.flatMap((backend, index) =>
    versions.map((version) => ({ backend, version, sizeBytes: index % 2 === 0 ? 4_096 : 1_500_000 })),
  )
  const images: Image[] = []
  const lanes = Array.from({ length: 2 }, async () => {
    for (let next = wanted.shift(); next !== undefined; next = wanted.shift()) images.push(await publish(next, publishing))
  })
  await Promise.all(lanes)
  return images
}

async function publish(
  { backend, version, sizeBytes }: { backend: string; version: string; sizeBytes: number },
  { directory, processes, registry }: Publishing,
): Promise<Image> {
  const from = join(directory, 'images', `${backend}-${version}`)
  await mkdir(from, { recursive: true })
  const about = {
    name: backend,
    version,
    driver: 'openai-http',
    command: ['./run.sh', '--addr', '{addr}'],
    health_path: '/health',
    env: {},
  }
  await writeFile(join(from, 'backend.json'), JSON.stringify(about))
  await writeFile(join(from, 'run.sh'), '#!/bin/sh\nexit 0\n')
  await chmod(join(from, 'run.sh'), 0o755)
  await writeFile(join(from, 'weights'), noise(sizeBytes))
  const uri = `${registry.host}/backends/${backend}:${version}`
  const packing = await processes.muster(['pack', from, '-t', uri, '--push', '--allow-source', registry.host, '-o', 'json'])
  const { code } = await packing.exited
  if (code !== 0) throw new Error(packing.output())
  return { backend, version, uri, digest: (JSON.parse(packing.stdout()) as { digest: string }).digest }
}

async function serveGallery(): Promise<{ url: string; offer: (images: readonly Image[]) => void } & AsyncDisposable> {
  let text = '[]'
  const server = createServer((_, response) => void response.end(text))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening on a port')
  return {
    url: `http://127.0.0.1:${address.port}/index.yaml`,
    offer: (images) =>
      void (text = JSON.stringify(images.map(({ backend, version, uri }) => ({ name: backend, version, uri: `oci://${uri}` })))),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
