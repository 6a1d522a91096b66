// What came from a source last time, for files whose configuration gives no sha256: another revision of a model does not
// fetch them again as long as the source still has the same. One that does not answer has not changed its mind.
import { readFile } from 'node:fs/promises'
import { writeFileAtomic } from '@muster/host'
import { Digest, failureOf } from '@muster/protocol'
import { z } from 'zod'
import { fileSize, type FetchedBlob } from '../storage/fetch-blob.ts'
import type { FileOrigin } from './file-origin.ts'
import type { ModelLayout } from './model-layout.ts'

const KnownSource = z.object({ validator: z.string(), digest: Digest, size: z.number() })

export interface KnownSources {
  /** Null when it has to be fetched. `hold` is told before it is looked for. */
  find(uri: string, origin: FileOrigin, hold: (digest: Digest) => void): Promise<FetchedBlob | null>
  record(uri: string, validator: string | null, fetched: FetchedBlob): Promise<void>
}

export function createKnownSources(layout: ModelLayout): KnownSources {
  return {
    async find(uri, origin, hold) {
      const known = KnownSource.safeParse(
        await readFile(layout.knownSource(uri), 'utf8')
          .then(JSON.parse)
          .catch(() => null),
      ).data
      const [open] = origin.mirrors
      if (known === undefined || open === undefined) return null
      const { validator, digest, size } = known
      hold(digest)
      if ((await fileSize(layout.blob(digest))) !== size) return null
      try {
        // Nothing is left to send of what is here to its last byte; something else comes from its beginning.
        const { stream, offset } = await open({ offset: size, validator })
        stream.destroy()
        return offset === size ? { digest, size } : null
      } catch (error) {
        if (failureOf(error).code === 'unavailable') return { digest, size }
        throw error
      }
    },
    async record(uri, validator, fetched) {
      if (validator !== null) await writeFileAtomic(layout.knownSource(uri), JSON.stringify({ validator, ...fetched }), { mode: 0o600 })
    },
  }
}
