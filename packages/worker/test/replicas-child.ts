// The replicas of a worker in a process of their own, which kills itself, as kill -9 would, when it reaches a named step:
//   node replicas-child.ts ROOT [--kill-at STEP] [--load ORDER] [--unload ID]
// Prints each event as a line of JSON. SIGTERM stops it like a worker.
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createLocalHub } from '@muster/bus'
import { silentLog, systemClock } from '@muster/host'
import { Incarnation, LoadModel, nodeEvents, NodeId, ReplicaId } from '@muster/protocol'
import { createLocalAiGrpcDriver } from '../src/drivers/localai-grpc/localai-grpc.ts'
import { createOpenAiHttpDriver } from '../src/drivers/openai-http.ts'
import { openBackendStore } from '../src/storage/backend-store.ts'
import { createInstalledBackends } from '../src/supervisor/run-replica.ts'
import { openReplicas } from '../src/supervisor/replicas.ts'
import { createWorkRegistry } from '../src/work/work-registry.ts'
import { sharedThreads } from './shared-threads.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'kill-at': { type: 'string' }, load: { type: 'string' }, unload: { type: 'string' } },
})
const [root = ''] = positionals
const step = (name: string): void => void (name === values['kill-at'] && process.kill(process.pid, 'SIGKILL'))
const store = await openBackendStore({
  root: join(root, 'backends'),
  threads: sharedThreads,
  clock: systemClock,
  log: silentLog,
  keepFreeBytes: 0,
})
const replicas = await openReplicas({
  dataDir: { root, path: (name) => join(root, name) },
  backends: createInstalledBackends({
    store,
    onDamaged: () => undefined,
    clock: systemClock,
    log: silentLog,
    signal: new AbortController().signal,
  }),
  models: { stage: async () => ({ directory: root, [Symbol.dispose]: () => undefined }), remove: async () => undefined },
  work: createWorkRegistry({ clock: systemClock }),
  drivers: {
    'openai-http': createOpenAiHttpDriver({ clock: systemClock }),
    'localai-grpc': createLocalAiGrpcDriver({ clock: systemClock }),
  },
  env: {},
  pace: { graceMs: 1_000 },
  clock: systemClock,
  log: silentLog,
  step,
})
const hub = createLocalHub({ log: silentLog })
const [bus, own] = [hub.connect(), hub.connect()]
const print = (what: object): void => void process.stdout.write(`${JSON.stringify(what)}\n`)
bus.subscribe(nodeEvents, { node: '*' }, (event) => {
  print(event)
  if (event.type === 'replica.ready' && event.replica_id === values.unload)
    void replicas.unload(ReplicaId.parse(values.unload), { force: true })
})
let seq = 0
replicas.attach({ bus: own, nodeId: NodeId.parse('n-1'), incarnation: Incarnation.parse('i-1'), nextSeq: () => seq++ })
print({ type: 'attached', running: replicas.running() })
if (values.load !== undefined) await replicas.load(LoadModel.parse(JSON.parse(values.load)))
const stay = setInterval(() => undefined, 1_000)
process.once('SIGTERM', () => {
  void replicas.stop().then(() => {
    clearInterval(stay)
    process.exit(0)
  })
})
