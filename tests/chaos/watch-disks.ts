// Reads the workers' disks again and again: their journals and the records of installed backends.
import { open, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readJournal } from '../../packages/worker/src/operations/journal.ts'
import { Activation } from '../../packages/worker/src/storage/records.ts'
import { request } from './request.ts'
import type { OnDisk, Command } from './observation.ts'
import type { Worker } from './world.ts'

export interface DiskWatch {
  commands(): Command[]
  disk(): OnDisk[]
  /** Its bus was there when it was last looked at, and that was just now. */
  isConnected(worker: string): boolean
  /** A look that begins now has ended. */
  lookOnce(): Promise<void>
}

const diskLookMs = 150

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

export function watchDisks(
  { workers, backends, now }: { workers: readonly Worker[]; backends: readonly string[]; now: () => number },
  signal: AbortSignal,
): DiskWatch {
  const commands = new Map<string, Mutable<Command>>()
  const disk = new Map<string, Mutable<OnDisk>[]>()
  const connectedAt = new Map<string, number>()
  const journals = new Map<string, { mark: string; at: number }>()

  const lookAt = async (worker: Worker): Promise<void> => {
    await readCommands(worker, { commands, journals, now })
    for (const backend of backends) await readRecord(worker, backend, { disk, now })
  }
  const keepLooking = async (worker: Worker): Promise<void> => {
    while (!signal.aborted) {
      await lookAt(worker)
      await delay(diskLookMs)
    }
  }
  const keepAsking = async (worker: Worker): Promise<void> => {
    while (!signal.aborted) {
      // A worker that answers later does not count as connected.
      const answer = await request(`${worker.url}/readyz`, { timeoutMs: 400 }).catch(() => null)
      if (answer?.status === 200) connectedAt.set(worker.name, now())
      else connectedAt.delete(worker.name)
      await delay(2 * diskLookMs)
    }
  }
  for (const worker of workers) for (const keep of [keepLooking, keepAsking]) void keep(worker)
  return {
    commands: () => [...commands.values()],
    disk: () => [...disk.values()].flat(),
    isConnected: (worker) => now() - (connectedAt.get(worker) ?? -Infinity) < 1_000,
    lookOnce: async () => void (await Promise.all(workers.map(lookAt))),
  }
}

type Commands = Readonly<{
  commands: Map<string, Mutable<Command>>
  /** The last version that was read, and when that read began. */
  journals: Map<string, { mark: string; at: number }>
  now: () => number
}>

async function readCommands({ name: node, dataDir }: Worker, { commands, journals, now }: Commands): Promise<void> {
  const path = join(dataDir, 'operations', 'journal')
  const at = now()
  const found = await stat(path).catch(() => null)
  if (found === null) return
  const mark = `${found.ino} ${found.size}`
  const last = journals.get(node)
  journals.set(node, { mark, at })
  if (last?.mark === mark) return
  const journal = readJournal(await readFile(path))
  if (journal.state !== 'readable') throw new Error(`the journal of ${node} is of another version`)
  const before = last?.at ?? 0
  for (const entry of journal.entries) {
    if (entry.type !== 'order' && entry.type !== 'end') continue
    const key = `${node} ${entry.id}`
    const known = commands.get(key)
    if (entry.type === 'order' && known === undefined) {
      const { backend, kind, generation = -1, digest = null } = entry.order
      commands.set(key, { node, id: entry.id, backend, kind, generation, digest, before, seenAt: now(), end: null })
    } else if (entry.type === 'end' && known?.end === null) {
      known.end = { state: entry.outcome.state, before, seenAt: now() }
    }
  }
}

type Disk = Readonly<{ disk: Map<string, Mutable<OnDisk>[]>; now: () => number }>

async function readRecord({ name: node, dataDir }: Worker, backend: string, { disk, now }: Disk): Promise<void> {
  const path = join(dataDir, 'backends', 'backends', backend, 'current')
  const to = now()
  const record = await readWhole(path)
  const key = `${node} ${backend}`
  const seen = disk.get(key) ?? []
  disk.set(key, seen)
  const last = seen.at(-1)
  if (last !== undefined && last.mark === record.mark) last.to = to
  else seen.push({ node, backend, ...record, from: now(), to })
}

/** Reads a record, with a mark that changes whenever it is written. */
async function readWhole(path: string): Promise<{ digest: string | null; mark: string }> {
  try {
    // One file, though another may be put in its place meanwhile.
    await using file = await open(path)
    const { ino, mtimeMs } = await file.stat()
    const { current } = Activation.parse(JSON.parse(await file.readFile('utf8')))
    return { digest: current.digest, mark: `${ino} ${mtimeMs} ${current.installed_at}` }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return { digest: null, mark: '' }
  }
}
