// Who this node is: a key made once on this machine, and what the controllers call it. The key alone
// is the identity; the rest can be lost and is learnt again.
import { createNodeKey, nodeKeyFromSeed, type DataDir, type Log, type NodeKey } from '@muster/host'
import { FleetError, NodeId } from '@muster/protocol'
import { z } from 'zod'
import { LastingSettings } from './lasting-settings.ts'

const keyFile = 'node.key'
const recordFile = 'node.json'

/** The key of the worker in this directory, made (durably, before anybody learns of it) if there is none. */
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
    const message = `${dataDir.path(keyFile)} is damaged, and without it this worker is not the node it was: restore it, or remove it to join as a new node`
    throw new FleetError({ code: 'integrity', retry: 'never', message }, { cause: error })
  }
}

const NodeRecord = z.object({
  id: NodeId.nullable(),
  /** Where it joined; another `--join` begins a new life. */
  join: z.string(),
  /** Where controllers answered last. */
  controllers: z.array(z.string()).max(256),
  /** Its absence, or what can't be read, is no reason to forget the id. */
  settings: LastingSettings.catch({}),
})
export type NodeRecord = z.infer<typeof NodeRecord>

export async function readNodeRecord(dataDir: DataDir, log: Log): Promise<NodeRecord | null> {
  const text = await dataDir.readFile(recordFile)
  if (text === null) return null
  try {
    return NodeRecord.parse(JSON.parse(text))
  } catch (error) {
    log.warn('what was known of this node can’t be read; learning it again', { file: dataDir.path(recordFile), error })
    return null
  }
}

export const writeNodeRecord = (dataDir: DataDir, record: NodeRecord): Promise<void> =>
  dataDir.writeFile(recordFile, `${JSON.stringify(record, null, 2)}\n`)
