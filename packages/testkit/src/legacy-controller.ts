// A controller that knows only the original's wire: it waits for the end of each command, sends no
// generation and no epoch, and upgrades by a forced install where no worker serves upgrades.
import { BusError, type Bus } from '@muster/bus'
import type { NodeId, OperationId } from '@muster/protocol'
import { legacyWire, type LegacyReply, type LegacyRequest } from './legacy-worker.ts'

export type LegacyProgress = Readonly<{ opId: string; fileName: string; percentage: number; phase: string }>

export interface LegacyController {
  install(request: LegacyRequest): Promise<LegacyReply>
  upgrade(request: Omit<LegacyRequest, 'force' | 'model_id'>): Promise<LegacyReply>
  remove(backend: string): Promise<LegacyReply>
  list(): Promise<{ readonly name?: string | undefined; readonly version?: string | undefined }[]>
  stopBackend(backend?: string): void
  /** Returns how to stop. */
  watch(opId: OperationId, onProgress: (progress: LegacyProgress) => void): () => Promise<void>
}

export function createLegacyController({
  bus,
  nodeId,
  timeoutMs = 15 * 60_000,
}: {
  bus: Bus
  nodeId: NodeId
  timeoutMs?: number
}): LegacyController {
  const to = { node: nodeId }
  const limits = { timeoutMs }
  const install = (request: LegacyRequest): Promise<LegacyReply> => bus.request(legacyWire.install, to, request, limits)
  return {
    install,
    async upgrade(request) {
      try {
        return await bus.request(legacyWire.upgrade, to, request, limits)
      } catch (error) {
        if (!(error instanceof BusError) || error.code !== 'no_responders') throw error
        return await install({ ...request, force: true })
      }
    },
    remove: (backend) => bus.request(legacyWire.remove, to, { backend }, limits),
    list: async () => (await bus.request(legacyWire.list, to, {}, limits)).backends ?? [],
    stopBackend: (backend) => bus.publish(legacyWire.stop, to, backend === undefined ? {} : { backend }),
    watch(opId, onProgress) {
      const subscription = bus.subscribe(legacyWire.progress, { node: nodeId, op: opId }, (event) =>
        onProgress({ opId: event.op_id, fileName: event.file_name ?? '', percentage: event.percentage, phase: event.phase ?? '' }),
      )
      return () => subscription.stop()
    },
  }
}
