// Files of models on a volume shared by several machines (`--shared-models`). When a directory has all files of a model,
// under the model's name or at the top, they are used in place: nothing is fetched, and nothing is ever written there.

import { join } from 'node:path'
import { writeFileAtomic, type Log } from '@muster/host'
import { Digest, failureOf, type ModelName } from '@muster/protocol'
import { z } from 'zod'
import type { Threads } from '../storage/threads.ts'
import type { StageContext } from './model-files.ts'
import type { ModelLayout } from './layout.ts'
import { findLocalFile, type LocalFile } from './origins.ts'
import { readRecord } from './source-records.ts'
import type { WantedFile } from './wanted-files.ts'

/** Returns the directory that has all files with the right content, or null. */
export type FindShared = (model: ModelName, files: readonly WantedFile[], context: StageContext) => Promise<string | null>

export interface SharedModelsDeps {
  readonly directory: string
  readonly layout: ModelLayout
  readonly threads: Threads
  readonly log: Log
}

const VerifiedFile = z.object({ validator: z.string(), digest: Digest })

export function createFindShared({ directory, layout, threads, log }: SharedModelsDeps): FindShared {
  /** Hashes a file once, and again only when it was replaced or written to. */
  const digestOf = async ({ path, size, validator }: LocalFile, { signal, onSign }: StageContext): Promise<Digest> => {
    const recordPath = layout.verifiedFile(path)
    const record = await readRecord(recordPath, VerifiedFile)
    if (record?.validator === validator) return record.digest
    const digest = await threads.digestOf(path, size, { signal, onSign })
    await writeFileAtomic(recordPath, JSON.stringify({ validator, digest }), { mode: 0o600 })
    return digest
  }
  const hasFile = async (base: string, file: WantedFile, context: StageContext): Promise<boolean> => {
    const path = join(base, file.filename)
    const found = await findLocalFile(path, directory)
    if (found === null) return false
    const about = { path, filename: file.filename }
    if (file.size !== null && found.size !== file.size) {
      log.warn('shared model file ignored: wrong size', { ...about, size: found.size, wanted: file.size })
      return false
    }
    if (file.digest === null) return true
    const digest = await digestOf(found, context)
    if (digest !== file.digest) log.warn('shared model file ignored: wrong hash', { ...about, digest, wanted: file.digest })
    return digest === file.digest
  }
  return async (model, files, context) => {
    if (files.length === 0) return null
    for (const base of [join(directory, model), directory]) {
      try {
        if (await all(files, (file) => hasFile(base, file, context))) return base
      } catch (error) {
        context.signal.throwIfAborted()
        // The files are fetched when the volume is unavailable or a link leaves it.
        log.warn('cannot use shared model files', { model, base, reason: failureOf(error).message })
      }
    }
    return null
  }
}

async function all<T>(items: readonly T[], isTrue: (item: T) => Promise<boolean>): Promise<boolean> {
  for (const item of items) if (!(await isTrue(item))) return false
  return true
}
