// What a worker remembers over restarts, kept in step with what it is.
import type { DataDir, Log } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { controllerOrigin, knownControllers } from '../controller-urls.ts'
import { readNodeRecord, writeNodeRecord, type NodeRecord } from '../identity.ts'
import { lastingPart, settleSettings, type SettledSettings } from '../lasting-settings.ts'
import type { WorkerSettings } from '../settings.ts'
import type { Membership } from './machine.ts'

export interface NodeMemory {
  record(): NodeRecord
  controllers(): readonly [string, ...string[]]
  /** What was given now or before. */
  readonly settings: SettledSettings
  keep(now: Membership): Promise<void>
}

export async function openNodeMemory({ dataDir, given, log }: { dataDir: DataDir; given: WorkerSettings; log: Log }): Promise<NodeMemory> {
  const stored = await readNodeRecord(dataDir, log)
  const join = given.join === undefined ? stored?.join : controllerOrigin(given.join)
  if (join === undefined || join === null) {
    throw new FleetError({ code: 'invalid', retry: 'never', message: 'no controller is known yet: run muster worker --join URL --token T' })
  }
  const settings = settleSettings(given, stored?.settings ?? {})
  let record: NodeRecord = stored?.join === join ? stored : { id: null, join, controllers: [], settings: stored?.settings ?? {} }
  return {
    record: () => record,
    settings,
    controllers: () => knownControllers(join, record.controllers),
    async keep(now) {
      const next: NodeRecord = {
        ...record,
        ...('session' in now ? { controllers: now.session.settings.controllers } : {}),
        id: idOf(now, record),
        // Only with what a controller took is it worth coming back.
        ...(now.state === 'registering' || now.state === 'ended' ? {} : { settings: lastingPart(settings) }),
      }
      if (JSON.stringify(next) === JSON.stringify(record)) return
      record = next
      // It is learnt again after a restart: not worth stopping for.
      await writeNodeRecord(dataDir, next).catch((error: unknown) => log.warn('what is known of this node could not be stored', { error }))
    },
  }
}

function idOf(now: Membership, record: NodeRecord): NodeRecord['id'] {
  if (now.state === 'ended') return now.reason === 'deleted' ? null : record.id
  return now.nodeId
}
