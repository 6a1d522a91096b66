// The record of a replica on disk: one small file, replaced atomically, so that a killed worker finds its processes again and
// resumes the loads it accepted.
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isTemporary, makeDirectory, writeFileAtomic, type Log } from '@muster/host'
import { Digest, LoadModel, NodeId, OperationId, ReplicaId } from '@muster/protocol'
import { z } from 'zod'
import { notStored } from '../work/work-registry.ts'
import { Stage } from './replica.pure.ts'

/** Incremented when an older worker could no longer read it. */
const format = 1

export const ReplicaRecord = z.object({
  format: z.literal(format),
  /** The node that the load was sent to; null: the worker was no node then. */
  node: NodeId.nullable(),
  order: LoadModel,
  /** A process without a model, for legacy controllers, which load it themselves. */
  isBare: z.boolean(),
  /** The operations that wait for this load. */
  opIds: z.array(OperationId).max(256),
  notedAt: z.number(),
  /** The tree that its process was started from. */
  digest: Digest.nullable(),
  /**
   * The digest of that version in the inventory, or the last one while it was in use: reported as long as the process runs,
   * whatever is installed meanwhile. Null: not started yet, or started by an older worker.
   */
  listed: Digest.nullable().default(null),
  stage: Stage,
})
export type ReplicaRecord = z.infer<typeof ReplicaRecord>

export interface ReplicaRecords {
  /** Durable when it resolves; throws FleetError (`disk_full`, `unavailable`). */
  write(record: ReplicaRecord): Promise<void>
  remove(id: ReplicaId): Promise<void>
}

/** `newer`: replicas whose records a newer Muster wrote; they are left untouched. */
export async function openReplicaRecords({ directory, log }: { directory: string; log: Log }) {
  await makeDirectory(directory, { mode: 0o700 })
  const pathOf = (id: ReplicaId): string => join(directory, `${id}.json`)
  const found: ReplicaRecord[] = []
  const newer: ReplicaId[] = []
  for (const name of await readdir(directory)) {
    const path = join(directory, name)
    const id = ReplicaId.safeParse(name.replace(/\.json$/, ''))
    if (isTemporary(name)) await rm(path, { force: true })
    if (!name.endsWith('.json') || !id.success) continue
    const read = parse(await readFile(path, 'utf8'))
    if (read === 'newer') {
      log.error('replica record written by a newer version; not loading models until that version runs again', {
        path,
      })
      newer.push(id.data)
    } else if (read === 'damaged' || read.order.replica_id !== id.data) {
      log.error('damaged replica record removed', { path })
      await rm(path, { force: true })
    } else found.push(read)
  }
  const records: ReplicaRecords = {
    write: (record) =>
      writeFileAtomic(pathOf(record.order.replica_id), JSON.stringify(record), { mode: 0o600 }).catch((error: unknown) =>
        Promise.reject(notStored('the replica', error)),
      ),
    remove: (id) => rm(pathOf(id), { force: true }),
  }
  return { records, found: found.toSorted((a, b) => a.notedAt - b.notedAt), newer }
}

function parse(text: string): ReplicaRecord | 'newer' | 'damaged' {
  try {
    const json: unknown = JSON.parse(text)
    const header = z.object({ format: z.number().int() }).safeParse(json)
    if (header.success && header.data.format > format) return 'newer'
    return ReplicaRecord.parse(json)
  } catch {
    return 'damaged'
  }
}
