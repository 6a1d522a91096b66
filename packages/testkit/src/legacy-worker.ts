// A worker that knows only the original's wire: it answers at the end, does not know async,
// generations, sequence numbers or op.status, and may lack the upgrade subject and progress.
import type { Bus, Subscription } from '@muster/bus'
import { command, NodeId, OperationId, topic } from '@muster/protocol'
import { z } from 'zod'

const params = { node: NodeId }
const Request = z.object({
  backend: z.string(),
  model_id: z.string().optional(),
  backend_galleries: z.string().optional(),
  uri: z.string().optional(),
  name: z.string().optional(),
  alias: z.string().optional(),
  replica_index: z.number().optional(),
  force: z.boolean().optional(),
  op_id: z.string().optional(),
})
export type LegacyRequest = z.infer<typeof Request>
const Reply = z.object({ success: z.boolean(), error: z.string().optional(), address: z.string().optional() })
export type LegacyReply = z.infer<typeof Reply>
const Backend = z.object({ name: z.string(), is_system: z.boolean(), is_meta: z.boolean(), installed_at: z.string(), version: z.string() })

/** The conversations as the original has them; the legacy controller speaks the same. */
export const legacyWire = {
  install: command({ subject: 'nodes.{node}.backend.install', params, request: Request, reply: Reply }),
  upgrade: command({
    subject: 'nodes.{node}.backend.upgrade',
    params,
    request: Request.omit({ force: true, model_id: true }),
    reply: Reply,
  }),
  remove: command({ subject: 'nodes.{node}.backend.delete', params, request: z.object({ backend: z.string() }), reply: Reply }),
  list: command({
    subject: 'nodes.{node}.backend.list',
    params,
    request: z.unknown(),
    // An empty list is null there.
    reply: z.object({ backends: z.array(Backend.partial()).nullable(), error: z.string().optional() }),
  }),
  stop: topic({ subject: 'nodes.{node}.backend.stop', params, message: z.object({ backend: z.string().optional() }) }),
  /** Byte counts are text for people; there is no number of the event. */
  progress: topic({
    subject: 'nodes.{node}.backend.install.{op}.progress',
    params: { node: NodeId, op: OperationId },
    message: z.object({
      op_id: z.string(),
      node_id: z.string(),
      backend: z.string(),
      file_name: z.string().optional(),
      current: z.union([z.string(), z.number()]).optional(),
      total: z.union([z.string(), z.number()]).optional(),
      percentage: z.number(),
      phase: z.string().nullable().optional(),
    }),
  }),
}

export type LegacyWork = Readonly<{
  kind: 'install' | 'upgrade' | 'delete'
  request: LegacyRequest
  /** Does nothing without `op_id`, or on a worker that is older than progress. */
  tick: (percentage: number, fileName?: string) => void
}>

export type LegacyWorkerOptions = Readonly<{
  bus: Bus
  nodeId: NodeId
  /** Without it there are no responders on that subject. */
  hasUpgrade?: boolean
  hasProgress?: boolean
  /** Takes as long as it likes; what it throws is the error of the reply. */
  work?: (work: LegacyWork) => Promise<void>
}>

export interface LegacyWorker extends AsyncDisposable {
  /** Name → version; an upgrade or a forced install raises the version. */
  readonly backends: Map<string, number>
  /** All commands that it received, as it understood them. */
  readonly heard: { readonly kind: LegacyWork['kind'] | 'stop'; readonly request: object }[]
  stop(): Promise<void>
}

export function startLegacyWorker(options: LegacyWorkerOptions): LegacyWorker {
  const { bus, nodeId, hasUpgrade = false, hasProgress = false, work = async () => undefined } = options
  const backends = new Map<string, number>()
  const heard: LegacyWorker['heard'] = []
  const to = { node: nodeId }

  const carryOut = async (kind: LegacyWork['kind'], request: LegacyRequest): Promise<LegacyReply> => {
    heard.push({ kind, request })
    const { backend, force = false } = request
    const isThere = backends.has(backend)
    if (kind === 'install' && isThere && !force) return { success: true }
    try {
      await work({ kind, request, tick: hasProgress ? ticker(bus, nodeId, request) : () => undefined })
    } catch (error) {
      return { success: false, error: error instanceof Error ? error.message : String(error) }
    }
    if (kind === 'delete') backends.delete(backend)
    else backends.set(backend, (backends.get(backend) ?? 0) + 1)
    return { success: true }
  }
  const served: Subscription[] = [
    bus.serve(legacyWire.install, to, (request) => carryOut('install', request)),
    ...(hasUpgrade ? [bus.serve(legacyWire.upgrade, to, (request) => carryOut('upgrade', request))] : []),
    bus.serve(legacyWire.remove, to, (request) => carryOut('delete', request)),
    bus.serve(legacyWire.list, to, () => ({ backends: backends.size === 0 ? null : [...backends].map(listed) })),
    bus.subscribe(legacyWire.stop, to, (request) => void heard.push({ kind: 'stop', request })),
  ]
  const stop = async (): Promise<void> => void (await Promise.all(served.map((subscription) => subscription.stop())))
  return { backends, heard, stop, [Symbol.asyncDispose]: stop }
}

const listed = ([name, version]: [string, number]) => ({
  name,
  is_system: false,
  is_meta: false,
  installed_at: '2025-01-01T00:00:00Z',
  version: String(version),
})

function ticker(bus: Bus, nodeId: NodeId, { op_id, backend }: LegacyRequest): LegacyWork['tick'] {
  const op = OperationId.safeParse(op_id)
  if (!op.success) return () => undefined
  return (percentage, fileName = 'layer') =>
    bus.publish(
      legacyWire.progress,
      { node: nodeId, op: op.data },
      {
        op_id: op.data,
        node_id: nodeId,
        backend,
        file_name: fileName,
        current: `${percentage} MB`,
        total: '100 MB',
        percentage,
        phase: 'downloading',
      },
    )
}
