// What is kept of each replica on disk: one small file that is replaced whole, so that a worker that was killed finds its
// processes again and carries on with what it accepted.
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, isTemporary, makeDirectory, writeFileAtomic, type Log } from '@muster/host'
import { Digest, FleetError, LoadModel, NodeId, OperationId, ReplicaId } from '@muster/protocol'
import { z } from 'zod'
import { Stage } from './machine.ts'

/** Raised when an older worker could no longer make sense of it. */
const format = 1

export const ReplicaRecord = z.object({
  format: z.literal(format),
  /** Whose wish it was; null: nobody's who is a node. */
  node: NodeId.nullable(),
  order: LoadModel,
  /** A process without a model, for controllers that load it themselves. */
  isBare: z.boolean(),
  /** Those that wait for the same load. */
  opIds: z.array(OperationId).max(256),
  notedAt: z.number(),
  /** Of the tree that its process was started from. */
  digest: Digest.nullable(),
  /**
   * Under which that version is listed, or was when it was last in use: what is said of it as long as it runs, whatever is
   * installed meanwhile. Null: not started yet, or by a worker that did not note it.
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

export type OpenedRecords = Readonly<{
  records: ReplicaRecords
  found: readonly ReplicaRecord[]
  /** Written by a newer Muster; left as they are. */
  newer: readonly ReplicaId[]
}>

export async function openReplicaRecords({ directory, log }: { directory: string; log: Log }): Promise<OpenedRecords> {
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
      log.error(
        'a replica was noted by a newer version of Muster; it is left alone, and models are not loaded, until that version runs again',
        {
          path,
        },
      )
      newer.push(id.data)
    } else if (read === 'damaged' || read.order.replica_id !== id.data) {
      log.error('the record of a replica is damaged and left out', { path })
      await rm(path, { force: true })
    } else found.push(read)
  }
  const records: ReplicaRecords = {
    write: (record) =>
      writeFileAtomic(pathOf(record.order.replica_id), JSON.stringify(record), { mode: 0o600 }).catch((error: unknown) =>
        Promise.reject(notWritten(error)),
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

function notWritten(error: unknown): FleetError {
  const isFull = errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT'
  const reason = error instanceof Error ? error.message : String(error)
  const message = isFull
    ? 'there is no disk space left to note the replica: free some in the data directory of this worker'
    : `the replica could not be noted in the data directory of this worker: ${reason}`
  return new FleetError({ code: isFull ? 'disk_full' : 'unavailable', retry: 'backoff', message }, { cause: error })
}
