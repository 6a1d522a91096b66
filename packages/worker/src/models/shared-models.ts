// Files of models on a volume that several machines have (`--shared-models`). Where all files of a model are there, under
// its name or beside each other, they are used where they are: nothing is fetched, and nothing is ever written there.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeFileAtomic, type Log } from '@muster/host'
import { Digest, failureOf, type ModelName } from '@muster/protocol'
import { z } from 'zod'
import type { Threads } from '../storage/threads.ts'
import type { StageContext } from './model-files.ts'
import type { ModelLayout } from './layout.ts'
import { findLocalFile, type LocalFile } from './origins.ts'
import type { WantedFile } from './wanted-files.ts'

/** The directory that has them all as they should be; null when there is none. */
export type FindShared = (model: ModelName, files: readonly WantedFile[], context: StageContext) => Promise<string | null>

export interface SharedModelsDeps {
  readonly directory: string
  readonly layout: ModelLayout
  readonly threads: Threads
  readonly log: Log
}

const VerifiedFile = z.object({ validator: z.string(), digest: Digest })

export function createFindShared({ directory, layout, threads, log }: SharedModelsDeps): FindShared {
  /** Read once, and again only when the file is another one or was written to. */
  const digestOf = async ({ path, size, validator }: LocalFile, { signal, onSign }: StageContext): Promise<Digest> => {
    const note = layout.verifiedFile(path)
    const known = VerifiedFile.safeParse(
      await readFile(note, 'utf8')
        .then(JSON.parse)
        .catch(() => null),
    )
    if (known.success && known.data.validator === validator) return known.data.digest
    const reading = threads.hash(path, { signal, onSign })
    reading.grow(size)
    reading.finish()
    const digest = Digest.parse(`sha256:${await reading.result}`)
    await writeFileAtomic(note, JSON.stringify({ validator, digest }), { mode: 0o600 })
    return digest
  }
  const hasFile = async (base: string, file: WantedFile, context: StageContext): Promise<boolean> => {
    const path = join(base, file.filename)
    const found = await findLocalFile(path, directory)
    if (found === null) return false
    const about = { path, filename: file.filename }
    if (file.size !== null && found.size !== file.size) {
      log.warn('a shared file of a model has another size, and is not used', { ...about, size: found.size, wanted: file.size })
      return false
    }
    if (file.digest === null) return true
    const digest = await digestOf(found, context)
    if (digest !== file.digest)
      log.warn('a shared file of a model has another hash, and is not used', { ...about, digest, wanted: file.digest })
    return digest === file.digest
  }
  return async (model, files, context) => {
    if (files.length === 0) return null
    for (const base of [join(directory, model), directory]) {
      try {
        if (await all(files, (file) => hasFile(base, file, context))) return base
      } catch (error) {
        context.signal.throwIfAborted()
        // A volume that is away, or a link that leads out of it, is no reason not to fetch.
        log.warn('shared files of a model are not used', { model, base, reason: failureOf(error).message })
      }
    }
    return null
  }
}

async function all<T>(items: readonly T[], holds: (item: T) => Promise<boolean>): Promise<boolean> {
  for (const item of items) if (!(await holds(item))) return false
  return true
}
