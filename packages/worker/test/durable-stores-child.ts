// Uses every durable store of a worker once, in a process whose file calls are recorded: durable-stores-child.ts ROOT. Each
// promise is recorded at the moment at which a caller may rely on it.
import { readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createLocalHub } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock, type DataDir } from '@muster/host'
import { BackendName, Digest, Incarnation, ModelName, NodeId, OperationId } from '@muster/protocol'
import { copyScriptedBackend, layerOf, tar } from '@muster/testkit'
// By its path, so that it is the module that was preloaded.
import { recordPromise } from '../../testkit/src/record-files.ts'
import { initialMembership } from '../src/membership/membership.pure.ts'
import { loadNodeKey, openNodeRecord } from '../src/membership/node-record.ts'
import { openModelFiles } from '../src/models/model-files.ts'
import { openJournal } from '../src/operations/journal.ts'
import { openOperations } from '../src/operations/operations.ts'
import { workerSettings } from '../src/settings.ts'
import { openBackendStore } from '../src/storage/backend-store.ts'
import { createThreads } from '../src/storage/threads.ts'
import { openReplicaRecords, ReplicaRecord } from '../src/supervisor/replica.ts'
import { createWorkRegistry } from '../src/work/work-registry.ts'
import { loadOf } from './replicas-world.ts'
import { createScriptedInstaller } from './scripted-installer.ts'
import { layersOf, never, recordOf, runSh, streamOf, treeOf } from './test-store.ts'

const [root = ''] = process.argv.slice(2)
const [clock, log] = [systemClock, silentLog]
const threads = createThreads()
const settings = resolveSettings(workerSettings, { flags: { join: 'http://127.0.0.1:1' }, env: {} })
const llama = BackendName.parse('llama')
const tiny = ModelName.parse('tiny')

const dataDir = await openDataDir({ path: join(root, 'data'), role: 'worker' })
await useIdentity(dataDir)
await useOperations(dataDir.path('operations/journal'))
await useBackends(dataDir.path('backends'))
await useReplicas(dataDir.path('replicas'))
await useModels(dataDir)
await threads.close()
await dataDir.release()

async function useIdentity(dir: DataDir): Promise<void> {
  await loadNodeKey(dir)
  recordPromise('the key of the node', [dir.path('node.key')])
  const node = await openNodeRecord({ dataDir: dir, given: settings, log })
  await node.store({ ...initialMembership(null), state: 'registering', nodeId: NodeId.parse('n-1') } as never, 4711)
  recordPromise('the record of the node', [dir.path('node.json')])
  await dir.writeSecret('nested/secret', 'value')
  recordPromise('a secret of the data directory', [dir.path('nested/secret')])
}

/** The reply to a command, and every event, are promises. */
async function useOperations(path: string): Promise<void> {
  const operations = await openOperations({ path, installer: createScriptedInstaller(), work: createWorkRegistry({ clock }), clock, log })
  const hub = createLocalHub({ log })
  const own = hub.connect()
  const lines = (): string => readFileSync(path, 'utf8')
  const reported = Promise.withResolvers<void>()
  const publish = own.publish.bind(own)
  own.publish = (...args: Parameters<typeof publish>) => {
    if ((args[2] as { type?: string }).type === 'op.result') {
      recordPromise('the result of an operation', [path], lines().includes('"type":"end"'))
      reported.resolve()
    }
    publish(...args)
  }
  operations.attach({ bus: own, nodeId: NodeId.parse('n-1'), incarnation: Incarnation.parse('i-1'), nextSeq: () => 0 })
  const submitted = await operations.submit({ kind: 'install', backend: llama, op_id: OperationId.parse('op-1'), generation: 1 })
  recordPromise('an accepted command', [path], lines().includes('"type":"order"'))
  if (!submitted.accepted) throw new Error('it is accepted')
  await submitted.ended
  await reported.promise
  await operations.stop()
  const again = await openJournal({ path, log })
  if (again.state !== 'open') throw new Error('it is open')
  await again.journal.rewrite(() => again.entries)
  recordPromise('a shortened journal', [path])
  await again.journal.append({ type: 'boot', boot: 9 })
  recordPromise('an entry after it', [path], lines().includes('"boot":9'))
  await again.journal.close()
}

async function useBackends(at: string): Promise<void> {
  const store = await openBackendStore({ root: at, threads, clock, log, keepFreeBytes: 0 })
  const layers = [layerOf(tar([runSh, { path: 'lib/', type: '5', mode: 0o755 }, { path: 'lib/data', data: 'one' }]))]
  const tree = treeOf(layers)
  for (const layer of layers) {
    const digest = Digest.parse(layer.digest)
    await store.fetchBlob({ digest, size: layer.size, open: async () => ({ stream: streamOf(layer.bytes), offset: 0 }) }, { signal: never })
    recordPromise('a blob', [join(at, 'blobs/sha256', digest.slice(7))])
  }
  const unpacked = join(store.treePath(tree), '..')
  await store.unpack(tree, layersOf(layers), { signal: never })
  recordPromise('an unpacked tree', [unpacked])
  await store.activate(recordOf('llama', tree, '1'))
  const record = join(at, 'backends/llama/current')
  recordPromise('the record of an activated version', [record, unpacked])
  await rm(join(store.treePath(tree), 'lib/data'))
  await store.unpack(tree, layersOf(layers), { signal: never })
  recordPromise('a repaired tree', [unpacked])
  const build = join(root, 'build')
  await copyScriptedBackend(build, { version: '2' })
  const { digest } = await store.importDirectory(build, { signal: never, digestOf: async () => Digest.parse(`sha256:${'2'.repeat(64)}`) })
  recordPromise('an imported tree', [join(store.treePath(digest), '..')])
  await store.activate(recordOf('llama', digest, '2'))
  recordPromise('the record of an upgrade', [record])
  await store.forgetPrevious(llama)
  recordPromise('the record without a previous version', [record])
  await store.deactivate(llama)
  recordPromise('the removal of a backend', [record, join(record, '..')])
}

async function useReplicas(directory: string): Promise<void> {
  const { records } = await openReplicaRecords({ directory, log })
  const given = { node: null, order: loadOf('r-1'), isBare: false, opIds: [], notedAt: 0, digest: null }
  await records.write(ReplicaRecord.parse({ format: 1, ...given, stage: { state: 'accepted' } }))
  recordPromise('the record of a replica', [join(directory, 'r-1.json')])
}

async function useModels(dir: DataDir): Promise<void> {
  const fail = (): Promise<never> => Promise.reject(new Error('there is no controller'))
  const models = join(root, 'shared')
  await writeFile(models, 'weights')
  const files = await openModelFiles({
    ...{ dataDir: dir, threads, clock, log, keepFreeBytes: 0, cluster: () => null },
    settings: { ...settings, modelDir: root },
    builtin: { references: () => [], images: { resolve: fail, resolveFile: fail, openBlob: fail } },
  })
  const at = dir.path('models')
  const uploaded = await files.receive(Readable.from([Buffer.from('uploaded')]), { model: tiny, signal: never })
  recordPromise('an uploaded file', [join(at, 'blobs/sha256', uploaded.digest.slice(7)), join(at, 'uploads')])
  const wanted = [{ uri: `file://${models}`, filename: 'w.gguf' }]
  const context = { signal: never, onProgress: () => undefined, onSign: () => undefined }
  await files.stage({ model: tiny, revision: 'r1', files: wanted }, context)
  recordPromise('the files of a model', [join(at, 'by-model'), join(at, 'blobs')])
  await files.remove(tiny)
  recordPromise('the removal of a model', [join(at, 'by-model')])
  await files.close()
}
