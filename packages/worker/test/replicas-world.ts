// The replicas of one worker: real processes of the scripted backend, a real store in which it is installed, and a record of the
// node's events.
import { spawn } from 'node:child_process'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { createLocalHub, type Bus } from '@muster/bus'
import { systemClock } from '@muster/host'
import {
  BackendName,
  Digest,
  Incarnation,
  LoadModel,
  ModelName,
  nodeEvents,
  progress,
  ReplicaId,
  type NodeEvent,
  type OpStatusReply,
  type Progress,
} from '@muster/protocol'
import {
  copyScriptedBackend,
  makeTempDir,
  scripted,
  waitFor,
  type ScriptedAnswer,
  type ScriptedLife,
  type ScriptedState,
  type TempDir,
} from '@muster/testkit'
import { openBackendStore, type BackendStore } from '../src/storage/backend-store.ts'
import { createOpenAiHttpDriver } from '../src/drivers/openai-http.ts'
import { createInstalledBackends } from '../src/supervisor/run-replica.ts'
import { openReplicas, type Replicas, type ReplicasOptions } from '../src/supervisor/replicas.ts'
import { createWorkRegistry, type WorkRegistry } from '../src/work/work-registry.ts'
import { nodeId } from './operations-world.ts'
import { recordingLog, type RecordingLog } from './recording-log.ts'
import { sharedThreads } from './shared-threads.ts'
import { never, recordOf } from './test-store.ts'

export const replicaId = (text: string): ReplicaId => ReplicaId.parse(text)

export interface ReplicasWorld extends AsyncDisposable {
  readonly replicas: Replicas
  readonly work: WorkRegistry
  readonly store: BackendStore
  readonly digest: Digest
  readonly root: string
  readonly log: RecordingLog
  readonly bus: Bus
  readonly events: NodeEvent[]
  readonly ticks: Progress[]
  interrupt(): void
  restore(): void
  /** Another build of the same backend becomes the one in use. */
  install(version: string): Promise<Digest>
  ready(id: string): Promise<Extract<NodeEvent, { type: 'replica.ready' }>>
  exited(id: string): Promise<Extract<NodeEvent, { type: 'replica.exited' }>>
  result(op: string): Promise<OpStatusReply>
  /** Loads and waits until it is ready. */
  serve(id: string, life?: ScriptedLife, more?: Partial<Record<keyof LoadModel, unknown>>): Promise<void>
  /** The processes that carry its mark, as `ps` would find them. */
  pids(id: string): Promise<number[]>
  /** The PID that its process reports. */
  pid(id: string): Promise<number>
  /** Names of the files that are kept of replicas: records and logs. */
  kept(): Promise<string[]>
  name(text: string): BackendName
  model(text: string): ModelName
}

/** `isFresh`: into a directory that is there, but in which nothing is installed. */
export type WorldOptions = Partial<Omit<ReplicasOptions, 'dataDir'>> & {
  temp?: TempDir
  root?: string
  isFresh?: boolean
  onDamaged?: () => void
}

export async function startReplicas(options: WorldOptions = {}): Promise<ReplicasWorld> {
  const temp = options.temp ?? (await makeTempDir('replicas'))
  const root = options.root ?? join(temp.path, 'data')
  const log = recordingLog()
  const store = await openBackendStore({ root: join(root, 'backends'), threads: sharedThreads, clock: systemClock, log, keepFreeBytes: 0 })
  const install = async (version: string): Promise<Digest> => {
    const build = join(temp.path, `build-${version}`)
    await copyScriptedBackend(build, { version })
    const digest = Digest.parse(`sha256:${version.replaceAll(/\D/g, '').padStart(64, '0')}`)
    await store.importDirectory(build, { signal: never, digestOf: async () => digest })
    await store.activate(recordOf('scripted', digest, version))
    return digest
  }
  const isFresh = options.temp === undefined || options.isFresh === true
  const digest = isFresh ? await install('1.0.0') : Digest.parse(`sha256:${'100'.padStart(64, '0')}`)
  const work = createWorkRegistry({ clock: systemClock })
  const replicas = await openReplicas({
    work,
    dataDir: { root, path: (name) => join(root, name) },
    backends: createInstalledBackends({ store, onDamaged: options.onDamaged ?? (() => undefined), clock: systemClock, log, signal: never }),
    models: { stage: async () => ({ directory: root, [Symbol.dispose]: () => undefined }), remove: async () => undefined },
    drivers: { 'openai-http': createOpenAiHttpDriver({ clock: systemClock }) },
    env: { PATH: '/usr/bin:/bin', SECRET_TOKEN: 'not for backends' },
    clock: systemClock,
    log,
    ...options,
  })
  return await attachTo({ replicas, work, store, digest, root, log, temp, install })
}

type Parts = Pick<ReplicasWorld, 'replicas' | 'work' | 'store' | 'digest' | 'root' | 'log' | 'install'> & { temp: TempDir }

async function attachTo(parts: Parts): Promise<ReplicasWorld> {
  const { replicas, root, temp, log } = parts
  const hub = createLocalHub({ log })
  const [bus, own] = [hub.connect(), hub.connect()]
  const events: NodeEvent[] = []
  const ticks: Progress[] = []
  bus.subscribe(nodeEvents, { node: '*' }, (event) => void events.push(event))
  bus.subscribe(progress, { node: '*', op: '*' }, (tick) => void ticks.push(tick))
  await bus.ping(5_000)
  let seq = 0
  const detach = replicas.attach({ bus: own, nodeId, incarnation: Incarnation.parse('i-1'), nextSeq: () => seq++ })
  const seen = <T extends NodeEvent['type']>(type: T, id: string): Promise<Extract<NodeEvent, { type: T }>> => {
    const isIt = (event: NodeEvent): event is Extract<NodeEvent, { type: T }> =>
      event.type === type && 'replica_id' in event && event.replica_id === id
    return waitFor(() => events.find(isIt) ?? null, { what: `${type} of ${id}` })
  }
  const leave = async (): Promise<void> => {
    detach()
    await Promise.all([bus.close(), own.close()])
  }
  return {
    ...parts,
    bus,
    events,
    ticks,
    interrupt: hub.interrupt,
    restore: hub.restore,
    ready: (id) => seen('replica.ready', id),
    exited: (id) => seen('replica.exited', id),
    result: (op) =>
      waitFor(() => events.find((event) => event.type === 'op.result' && event.op_id === op) as OpStatusReply, {
        what: `the result of ${op}`,
      }),
    async serve(id, life = {}, more = {}) {
      const accepted = await replicas.load(loadOf(id, life, more))
      if (!accepted.accepted) throw new Error(accepted.failure.message)
      await seen('replica.ready', id)
    },
    pids: (id) => markedPids(id, temp.path),
    async pid(id) {
      const [pid] = await waitFor(
        async () => {
          const pids = await markedPids(id, temp.path)
          return pids.length > 0 ? pids : null
        },
        { what: `a process of ${id}` },
      )
      return pid ?? 0
    },
    kept: async () => (await Promise.all(['replicas', 'logs'].map((name) => readdir(join(root, name))))).flat(),
    name: (text) => BackendName.parse(text),
    model: (text) => ModelName.parse(text),
    async [Symbol.asyncDispose]() {
      await replicas.stop()
      await leave()
      await temp.remove()
    },
  }
}

export function loadOf(
  id: string,
  life: ScriptedLife & Record<string, unknown> = {},
  more: Partial<Record<keyof LoadModel, unknown>> = {},
): LoadModel {
  return LoadModel.parse({
    model: 'm',
    revision: 'rev-1',
    replica_id: id,
    backend: 'scripted',
    config: { options: life },
    files: [],
    op_id: `op-${id}`,
    ...more,
  })
}

/**
 * Found by another program than the one under test. Of a zombie nothing can be read. `below`: those that run there; other test
 * files may call theirs the same.
 */
export async function markedPids(id: string, below = '/'): Promise<number[]> {
  const child = spawn('sh', ['-c', 'exec grep -lzx "MUSTER_REPLICA_ID=$1" /proc/[0-9]*/environ', 'sh', id], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  await new Promise((resolve) => child.once('close', resolve))
  const pids = [...text.matchAll(/^\/proc\/(\d+)\//gm)].map(([, pid]) => Number(pid))
  const places = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => '')))
  return pids.filter((_, index) => places[index]?.startsWith(below) === true)
}

/** Asks its process itself, past every gateway; first for an answer of that kind, if one is wanted. */
export async function askState(
  { root }: Pick<ReplicasWorld, 'root'>,
  id: string,
  how: ScriptedAnswer | null = null,
): Promise<ScriptedState> {
  const record = JSON.parse(await readFile(join(root, 'replicas', `${id}.json`), 'utf8')) as {
    stage: { run: { address: { port: number } } }
  }
  const url = `http://127.0.0.1:${record.stage.run.address.port}`
  if (how !== null) await fetch(`${url}/v1/completions`, { method: 'POST', body: JSON.stringify({ prompt: scripted(how) }) })
  return JSON.parse(await (await fetch(`${url}/scripted/state`)).text())
}
