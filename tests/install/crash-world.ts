// A worker process, the cluster it belongs to, the registry it fetches from, and its disk as seen from outside: between
// a crash and the next start, and at the end.
import { cp, mkdir, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { connectNats, type Bus } from '@muster/bus'
import { silentLog, systemClock } from '@muster/host'
import { backendList, nodeEvents, opStatus, type InstalledBackend, type NodeEvent, type NodeId, type OpStatusReply } from '@muster/protocol'
import {
  createProcesses,
  createTestDatabase,
  joinToken,
  makeTempDir,
  nodesOf,
  startHostileRegistry,
  startNats,
  startTestController,
  waitFor,
  type HostileRegistry,
  type StartedProcess,
} from '@muster/testkit'
import { hashOf, versions, type Version } from './crash-images.ts'

export const repository = 'backends/echo'
const program = join(import.meta.dirname, '../../packages/testkit/src/crashing-worker.ts')
const soon = { timeoutMs: 10_000 }

export type KillAt = Readonly<{ step: string; nth?: number }>

export async function startCrashWorld() {
  await using started = new AsyncDisposableStack()
  const directory = started.use(await makeTempDir('crash'))
  const processes = started.use(createProcesses())
  const registry = started.use(await startHostileRegistry())
  for (const { image, version } of versions) registry.addImage(repository, image, version)
  const nats = started.use(await startNats())
  const database = started.use(await createTestDatabase())
  const controller = started.use(
    await startTestController({
      directory: directory.path,
      databaseUrl: database.url,
      flags: { 'nats-url': nats.url, 'auto-approve': true, 'allow-source': registry.host },
    }),
  )
  const bus = await connectNats({ url: nats.url, name: 'test', inboxPrefix: '_INBOX_crash', log: silentLog, clock: systemClock })
  started.defer(() => bus.close())
  const start = (dataDir: string, killAt?: KillAt): Promise<StartedProcess> =>
    processes.start('node', {
      args: [
        program,
        ...['--join', controller.url, '--directory', dataDir],
        ...(killAt === undefined ? [] : ['--kill-at', killAt.step, '--nth', String(killAt.nth ?? 1)]),
      ],
      env: { MUSTER_TOKEN: joinToken },
    })

  // The node joins once. Each case begins with a copy of its data directory, so they are all the same node.
  const origin = join(directory.path, 'origin')
  const joining = await start(origin)
  const [{ id }] = await waitFor(async () => toOne(await nodesOf(controller.api)), { what: 'the node to join' })
  const node = id as NodeId
  const asked = createQuestions(bus, node)
  await asked.untilThere(joining)
  await joining.stop()
  const events: NodeEvent[] = []
  bus.subscribe(nodeEvents, { node }, (event) => void events.push(event))
  let copies = 0
  const stack = started.move()
  return {
    registry,
    bus,
    node,
    events,
    start,
    ...asked,
    origin: () => origin,
    /** A data directory of its own, that is a copy. */
    copyOf: async (from: string): Promise<string> => {
      copies += 1
      const to = join(directory.path, `worker-${copies}`)
      await mkdir(to, { mode: 0o700 })
      await cp(from, to, { recursive: true })
      return to
    },
    stop: () => stack.disposeAsync(),
  }
}
export type CrashWorld = Awaited<ReturnType<typeof startCrashWorld>>

const toOne = <T>(list: readonly T[]): [T] | null => (list[0] === undefined ? null : [list[0]])

export async function endNow(worker: StartedProcess): Promise<void> {
  worker.kill('SIGKILL')
  await worker.exited
}

function createQuestions(bus: Bus, node: NodeId) {
  const list = async (): Promise<InstalledBackend[]> => (await bus.request(backendList, { node }, {}, soon)).backends
  const status = (op: string): Promise<OpStatusReply> => bus.request(opStatus, { node }, { op_id: op }, soon)
  return {
    list,
    status,
    untilThere: async (worker: StartedProcess): Promise<void> => {
      const isThere = async (): Promise<boolean> => worker.hasExited() || (await list()).length >= 0
      await waitFor(isThere, { what: 'the worker to be on the bus' })
      if (worker.hasExited()) throw new Error(`the worker ended: ${worker.output()}`)
    },
    untilEnded: (op: string): Promise<OpStatusReply> =>
      waitFor(
        async () => {
          const seen = await status(op)
          return ['succeeded', 'failed', 'cancelled'].includes(seen.state) ? seen : null
        },
        { what: `${op} to end` },
      ),
  }
}

/** How many bytes of each layer the disk has, verified or not. */
export async function keptBytes(dataDir: string, { image }: Version): Promise<number[]> {
  const sizeAt = async (path: string): Promise<number | null> =>
    (await stat(join(dataDir, 'backends', path)).catch(() => null))?.size ?? null
  return Promise.all(
    image.layers.map(
      async ({ digest }) => (await sizeAt(`blobs/sha256/${hexOf(digest)}`)) ?? (await sizeAt(`incoming/${hexOf(digest)}`)) ?? 0,
    ),
  )
}

/** For each layer, where each answer began and how long it was. */
export type Answers = readonly (readonly Readonly<{ from: number; bytes: number }>[])[]
export const answersFor = (registry: HostileRegistry, { image }: Version): Answers =>
  image.layers.map(({ digest }) => registry.answersFor(digest).map((answer) => ({ ...answer })))

/** The content of the store on disk, files by their hashes. */
export async function readDisk(dataDir: string) {
  const root = join(dataDir, 'backends')
  const names = async (path: string): Promise<string[]> => (await readdir(join(root, path))).toSorted()
  const trees = await names('trees/sha256')
  return {
    incoming: await names('incoming'),
    staging: await names('staging'),
    blobs: await names('blobs/sha256'),
    backends: await names('backends'),
    trees: Object.fromEntries(
      await Promise.all(trees.map(async (tree) => [tree, await filesBelow(join(root, 'trees/sha256', tree, 'root'))])),
    ),
    current: await readFile(join(root, 'backends/echo/current'), 'utf8').then(
      (text) => (JSON.parse(text) as { current: { digest: string } }).current.digest,
      () => null,
    ),
  }
}

/** The result of `readDisk` when only these versions are installed, the first of them in use. */
export const diskWith = (kept: readonly Version[]): Awaited<ReturnType<typeof readDisk>> => ({
  incoming: [],
  staging: [],
  blobs: [...new Set(kept.flatMap(({ image }) => image.layers.map(({ digest }) => hexOf(digest))))].toSorted(),
  backends: kept.length === 0 ? [] : ['echo'],
  trees: treesOf(kept),
  current: kept[0]?.digest ?? null,
})
export const treesOf = (kept: readonly Version[]): Record<string, Record<string, string>> =>
  Object.fromEntries(kept.map(({ digest, files }) => [hexOf(digest), { ...files }]))

async function filesBelow(directory: string): Promise<Record<string, string>> {
  const found = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return Object.fromEntries(await Promise.all(files.map(async (path) => [path.slice(directory.length + 1), hashOf(await readFile(path))])))
}

/** The states that the journal gives as the end of this operation. */
export async function endsIn(dataDir: string, op: string): Promise<unknown[]> {
  const lines = (await readFile(join(dataDir, 'operations/journal'), 'utf8')).split('\n').slice(0, -1)
  const entries = lines.map(
    (line) => JSON.parse(line.slice(9)) as { type?: string; id?: number; order?: { op_id?: string }; outcome?: { state: string } },
  )
  const ids = entries.filter(({ order }) => order?.op_id === op).map(({ id }) => id)
  return entries.filter(({ type, id }) => type === 'end' && ids.includes(id)).map(({ outcome }) => outcome?.state)
}

export const hexOf = (digest: string): string => digest.slice('sha256:'.length)
