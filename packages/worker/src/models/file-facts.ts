// Facts about stored model files for the inventory: headers of GGUF files, and the content of files under their names. Headers
// are read in the background, one at a time, and kept on disk, so that neither an inventory nor a start waits for them.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createLoop, type Clock, type Log, writeFileAtomic } from '@muster/host'
import { type BackendList, type Digest, GgufFacts, type NamedFile, type StoredFacts, type StoredFile } from '@muster/protocol'
import { ggufReader, readGgufFile } from '@muster/source'
import { z } from 'zod'
import type { ModelFolders } from './folders.ts'
import type { ModelLayout } from './layout.ts'
import { readRecord } from './source-records.ts'

export interface FileFactsDeps {
  readonly layout: ModelLayout
  readonly folders: Pick<ModelFolders, 'list'>
  /** Called when more facts are known. */
  readonly onChanged: () => void
  readonly clock: Clock
  readonly log: Log
}
export type FileReport = Required<Pick<BackendList, 'file_facts' | 'named_files'>>

/** The largest files matter most; each list stays a fraction of a bus message. */
const mostFiles = 256
const mostBytes = 128_000
const retryMs = 60_000
const idleMs = 3_600_000

/** `reader`: the version that read it; a newer one reads again. */
const FactsRecord = z.object({ reader: z.number(), facts: GgufFacts.nullable() })

export function createFileFacts({ layout, folders, onChanged, clock, log }: FileFactsDeps) {
  /** Null: not a GGUF file. */
  const known = new Map<Digest, GgufFacts | null>()
  let missing: readonly Digest[] = []
  const loop = createLoop({ what: 'cannot read the headers of model files; retrying', clock, log, retryMs })

  const readMissing = async (signal: AbortSignal): Promise<void> => {
    const wanted = missing.filter((digest) => !known.has(digest))
    let hasNews = false
    for (const digest of wanted) {
      signal.throwIfAborted()
      const facts = await factsOf(layout, digest)
      // Removed since it was listed.
      if (facts === undefined) continue
      known.set(digest, facts)
      hasNews ||= facts !== null
    }
    if (hasNews) onChanged()
  }

  return {
    /** Facts that are known now; the rest is reported when it was read. */
    async report(contents: readonly StoredFile[]): Promise<FileReport> {
      const stored = new Set(contents.map(({ digest }) => digest))
      for (const digest of known.keys()) if (!stored.has(digest)) known.delete(digest)
      const largest = contents.toSorted((a, b) => b.size - a.size || (a.digest < b.digest ? -1 : 1)).slice(0, mostFiles)
      missing = largest.flatMap(({ digest }) => (known.has(digest) ? [] : [digest]))
      if (missing.length > 0) loop.wake()
      const listed = largest.flatMap(({ digest }): StoredFacts[] => {
        const facts = known.get(digest) ?? null
        return facts === null ? [] : [{ digest, facts }]
      })
      return { file_facts: withinBytes(listed), named_files: withinBytes(await namedFiles(folders)) }
    },
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await dropStale(layout)
      await loop.run(async () => {
        await readMissing(signal)
        return idleMs
      }, signal)
    },
  }
}

/** The files of the last used revision of each model, the last used model first. */
async function namedFiles(folders: Pick<ModelFolders, 'list'>): Promise<NamedFile[]> {
  const { found } = await folders.list()
  const named = new Map<string, NamedFile>()
  for (const { record } of found.toSorted((a, b) => b.usedAt - a.usedAt))
    for (const { filename, digest, size } of record.files) {
      const key = `${record.model}\n${filename}`
      if (!named.has(key)) named.set(key, { model: record.model, filename, digest, size })
    }
  return [...named.values()]
}

function withinBytes<T>(list: readonly T[]): T[] {
  let bytes = 0
  return list.filter((each) => (bytes += JSON.stringify(each).length) <= mostBytes)
}

/** Undefined when the content is not stored any more. */
async function factsOf(layout: ModelLayout, digest: Digest): Promise<GgufFacts | null | undefined> {
  const path = layout.factsOf(digest)
  const before = await readRecord(path, FactsRecord)
  if (before?.reader === ggufReader) return before.facts
  const found = await readGgufFile(layout.blob(digest))
  if (found.kind === 'missing') return undefined
  const facts = found.kind === 'facts' ? found.facts : null
  await writeFileAtomic(path, JSON.stringify({ reader: ggufReader, facts }), { mode: 0o600 })
  return facts
}

/** Removes the records of content that is no longer stored. */
async function dropStale({ facts, blobs }: ModelLayout): Promise<void> {
  const stored = new Set(await readdir(blobs).catch(() => []))
  for (const name of await readdir(facts).catch(() => [])) if (!stored.has(name)) await rm(join(facts, name), { force: true })
}
