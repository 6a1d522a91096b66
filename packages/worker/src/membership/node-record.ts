// The identity of a node on disk: its key, made once on this machine, and a record of its ID, controllers, gateway and settings.
// The key alone is the identity; the record can be lost and is restored at the next registration.
import { z } from 'zod'
import { createNodeKey, type DataDir, type Log, type NodeKey, nodeKeyFromSeed } from '@muster/host'
import { FleetError, NodeId } from '@muster/protocol'
import { controllerOrigin, knownControllers } from '../controllers/controller-urls.ts'
import { rememberedSettings, RememberedSettings, mergeSettings, type WorkerSettings } from '../settings.ts'
import type { Membership } from './membership.pure.ts'

export type NodeRecordStore = Awaited<ReturnType<typeof openNodeRecord>>

type NodeRecordOptions = Readonly<{ dataDir: DataDir; given: WorkerSettings; log: Log }>

export async function openNodeRecord({ dataDir, given, log }: NodeRecordOptions) {
  const stored = await readNodeRecord(dataDir, log)
  const join = given.join === undefined ? stored?.join : controllerOrigin(given.join)
  if (join === undefined || join === null) {
    throw new FleetError({
      code: 'invalid',
      retry: 'never',
      message: 'no controller is known yet: run `muster worker --join URL --token T`',
    })
  }
  const settings = mergeSettings(given, stored?.settings ?? {})
  let record: NodeRecord =
    stored?.join === join ? stored : { id: null, join, controllers: [], gateway: null, settings: stored?.settings ?? {} }
  return {
    record: (): NodeRecord => record,
    settings,
    controllers: () => knownControllers(join, record.controllers),
    /** `gatewayPort`: the port on which the gateway of this run listens. */
    async store(now: Membership, gatewayPort: number): Promise<void> {
      const next: NodeRecord = {
        ...record,
        ...('session' in now ? { controllers: now.session.settings.controllers } : {}),
        id: idOf(now, record),
        gateway: gatewayOf(now, { last: record.gateway, port: gatewayPort }),
        // Settings are stored once a controller accepted them.
        ...(now.state === 'registering' || now.state === 'ended' ? {} : { settings: rememberedSettings(settings) }),
      }
      if (JSON.stringify(next) === JSON.stringify(record)) return
      record = next
      // The record is restored after a restart: a failure is no reason to stop.
      await writeNodeRecord(dataDir, next).catch((error: unknown) => log.warn('cannot store the node record', { error }))
    },
  }
}

function idOf(now: Membership, record: NodeRecord): NodeRecord['id'] {
  if (now.state === 'ended') return now.reason === 'deleted' ? null : record.id
  return now.nodeId
}

type GatewayRecord = NodeRecord['gateway']

/** Stays until a session brings another secret, or none: the node is not approved any more. */
function gatewayOf(now: Membership, { last, port }: { last: GatewayRecord; port: number }): GatewayRecord {
  if ('session' in now) {
    const { bus, gateway_secret: secret } = now.session
    return bus === null || secret === undefined ? null : { port, secret }
  }
  if (now.state === 'ended') return now.reason === 'deleted' ? null : last
  return now.nodeId === null ? null : last
}

/**
 * The node ID and the secret that controllers use at the gateway; null for a node that is not approved. Until a controller answers,
 * those of the last session count: controllers that cannot register a node, because their database is down, still send requests to
 * the replicas that they know, and the replicas of the earlier process run on.
 */
export function gatewayIdentity(
  now: Membership | null,
  record: Pick<NodeRecord, 'id' | 'gateway'>,
): Readonly<{ nodeId: NodeId; secret: string }> | null {
  if (now?.state === 'joined') {
    const { gateway_secret: secret } = now.session
    return secret === undefined ? null : { nodeId: now.nodeId, secret }
  }
  if (record.id === null || record.gateway === null || now?.state === 'pending' || now?.state === 'ended') return null
  return now === null || now.nodeId === record.id ? { nodeId: record.id, secret: record.gateway.secret } : null
}

const keyFile = 'node.key'
const recordFile = 'node.json'

/** The key of the worker in this directory; created, and stored durably before its first use, if there is none. */
export async function loadNodeKey(dataDir: DataDir): Promise<NodeKey> {
  const seed = await dataDir.readFile(keyFile)
  if (seed === null) {
    const key = createNodeKey()
    await dataDir.writeSecret(keyFile, key.seed)
    return key
  }
  try {
    return nodeKeyFromSeed(seed)
  } catch (error) {
    const message = `${dataDir.path(keyFile)} is damaged; restore it to stay the same node, or remove it to join as a new node`
    throw new FleetError({ code: 'integrity', retry: 'never', message }, { cause: error })
  }
}

const NodeRecord = z.object({
  id: NodeId.nullable(),
  /** The controller of `--join`; another one starts a new record. */
  join: z.string(),
  /** The controllers of the latest session. */
  controllers: z.array(z.string()).max(256),
  /** The gateway of the last run. At the same port and with the same secret, controllers reach it before it has registered again. */
  gateway: z
    .object({ port: z.number().int().min(1).max(65_535), secret: z.string() })
    .nullable()
    .catch(null),
  /** Unreadable settings must not cost the ID. */
  settings: RememberedSettings.catch({}),
})
type NodeRecord = z.infer<typeof NodeRecord>

async function readNodeRecord(dataDir: DataDir, log: Log): Promise<NodeRecord | null> {
  const text = await dataDir.readFile(recordFile)
  if (text === null) return null
  try {
    return NodeRecord.parse(JSON.parse(text))
  } catch (error) {
    log.warn('cannot read the node record; registering again', { file: dataDir.path(recordFile), error })
    return null
  }
}

const writeNodeRecord = (dataDir: DataDir, record: NodeRecord): Promise<void> =>
  dataDir.writeSecret(recordFile, `${JSON.stringify(record, null, 2)}\n`)
