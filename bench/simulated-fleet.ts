// The load of N nodes, as real workers make it: each registers with a key of its own, holds a session (a signed
// long poll over HTTP), and sends a heartbeat over NATS at its interval. What is left out are N processes and N
// connections to NATS: all nodes share one. With --work MS they also take on commands about backends, and say after that
// time that they are done. Run by others as a process of its own, so that its cost is not counted.
import { Agent, request } from 'node:http'
import { parseArgs } from 'node:util'
import { connectNats } from '@muster/bus'
import { createNodeKey, newId, signRequest, silentLog, systemClock, type NodeKey } from '@muster/host'
import {
  backendDelete,
  backendInstall,
  backendList,
  backendUpgrade,
  heartbeat,
  Incarnation,
  NodeId,
  nodeEvents,
  type CommandReply,
  type OperationId,
} from '@muster/protocol'

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    nats: { type: 'string' },
    count: { type: 'string' },
    interval: { type: 'string' },
    work: { type: 'string' },
  },
})
const [count, intervalMs] = [Number(values.count), Number(values.interval)]
const agent = new Agent({ keepAlive: true, maxSockets: Infinity })
const bus = await connectNats({
  url: values.nats ?? '',
  name: 'simulated fleet',
  inboxPrefix: '_INBOX_bench',
  log: silentLog,
  clock: systemClock,
})

function post(key: NodeKey, path: string, body: object): Promise<{ status: number; body: Record<string, unknown> }> {
  const raw = Buffer.from(JSON.stringify(body))
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: Record<string, unknown> }>()
  const headers = {
    ...signRequest(key, { method: 'POST', path, body: raw, now: new Date() }),
    'content-type': 'application/json',
    'content-length': raw.byteLength,
  }
  const call = request(`${values.url}${path}`, { method: 'POST', agent, headers }, (response) => {
    let text = ''
    response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
    response.on('end', () => resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as Record<string, unknown> }))
  })
  call.on('error', reject).end(raw)
  return promise
}

const resources = {
  cpus: 64,
  total_ram: 2 ** 39,
  available_ram: 2 ** 38,
  total_vram: 2 ** 36,
  available_vram: 2 ** 35,
  total_disk: 2 ** 42,
  available_disk: 2 ** 41,
  gpu_vendor: 'nvidia',
}

/** The number of the next message of each node. */
const living = new Map<NodeId, { readonly incarnation: Incarnation; seq: number }>()

type Ordered = Readonly<{ op_id?: OperationId | undefined; generation?: number | undefined; epoch?: number | undefined }>

/** Accepts at once, and says later that it is done. */
function take({ op_id, generation, epoch }: Ordered, { node }: { node: NodeId }): CommandReply {
  const of = living.get(node)
  if (op_id === undefined || of === undefined) return { success: true }
  setTimeout(() => {
    const about = {
      op_id,
      state: 'succeeded' as const,
      ...(generation === undefined ? {} : { generation }),
      ...(epoch === undefined ? {} : { epoch }),
    }
    bus.publish(nodeEvents, { node }, { type: 'op.result', incarnation: of.incarnation, seq: (of.seq += 1), ...about })
  }, Number(values.work))
  return { accepted: true }
}
bus.serve(backendList, { node: '*' }, () => ({ backends: [] }))
if (values.work !== undefined) {
  bus.serve(backendInstall, { node: '*' }, take)
  bus.serve(backendUpgrade, { node: '*' }, take)
  bus.serve(backendDelete, { node: '*' }, take)
}

async function live(index: number): Promise<void> {
  const key = createNodeKey()
  const incarnation = Incarnation.parse(newId())
  const registration = {
    name: `node-${index}`,
    public_key: key.publicKey,
    version: '0',
    features: ['async'],
    os: 'linux',
    arch: 'amd64',
    incarnation,
    resources,
    token: process.env['MUSTER_JOIN_TOKEN'],
  }
  const registered = await post(key, '/api/node/register', registration)
  const id = NodeId.parse(registered.body['id'])
  void holdSession(key, id, incarnation)
  const own = { incarnation, seq: 0 }
  living.set(id, own)
  const beat = (): void =>
    bus.publish(
      heartbeat,
      { node: id },
      {
        node_id: id,
        incarnation,
        seq: (own.seq += 1),
        version: '0',
        resources: { ...resources, available_ram: 2 ** 38 - own.seq * 4096 },
        in_flight: own.seq % 7,
        ops: [],
      },
    )
  setTimeout(() => {
    beat()
    setInterval(beat, intervalMs)
  }, Math.random() * intervalMs)
}

async function holdSession(key: NodeKey, id: NodeId, incarnation: string): Promise<void> {
  for (let known: unknown; ;) {
    const answer = await post(key, `/api/node/${id}/session`, { incarnation, ...(known === undefined ? {} : { known }) }).catch(() => null)
    known = answer?.body['etag']
  }
}

for (let index = 0; index < count; index += 50) {
  await Promise.all(Array.from({ length: Math.min(50, count - index) }, (_, i) => live(index + i)))
}
process.stdout.write('joined\n')
