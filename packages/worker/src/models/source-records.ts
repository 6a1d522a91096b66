// What came from a source last time, for files whose configuration gives no sha256: another revision of a model does not
// fetch them again as long as the source still has the same. One that does not answer has not changed its mind.
import { readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { z } from 'zod'
import { identifySelf, writeFileAtomic } from '@muster/host'
import { Digest, failureOf } from '@muster/protocol'
import { type FetchedBlob, fileSize } from '../storage/blobs.ts'
import type { ModelLayout } from './layout.ts'
import type { FileOrigin, OpenOrigin } from './origins.ts'

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

// What the beginning of a file belongs to that has no digest yet: its rest is asked for only from a source that still has
// the same. Not trusted after the machine was off: bytes that never reached the disk would be noticed by nobody.

const PartialRecord = z.object({ validator: z.string(), boot: z.string() })

const partialRecordPath = (incoming: string): string => `${incoming}.json`

/** All of it is there: what it belonged to, for the last time. */
export async function finishPartial(incoming: string): Promise<string | null> {
  const path = partialRecordPath(incoming)
  const known = PartialRecord.safeParse(
    await readFile(path, 'utf8')
      .then(JSON.parse)
      .catch(() => null),
  )
  await rm(path, { force: true })
  return known.data?.validator ?? null
}

/** Opens what the incoming file is continued with, or begun with again. */
export async function resumeDownload(open: OpenOrigin, incoming: string, have: number): ReturnType<OpenOrigin> {
  const path = partialRecordPath(incoming)
  const { boot } = identifySelf()
  const known = PartialRecord.safeParse(
    await readFile(path, 'utf8')
      .then(JSON.parse)
      .catch(() => null),
  )
  const validator = known.success && known.data.boot === boot ? known.data.validator : null
  const opened = await open({ offset: validator === null ? 0 : have, validator })
  if (validator !== null && opened.offset > 0) return opened
  // First the old bytes go, then the new name is written: never the one with the other.
  if ((await fileSize(incoming)) !== null) await truncate(incoming, 0)
  if (opened.validator === null) await rm(path, { force: true })
  else await writeFile(path, JSON.stringify({ validator: opened.validator, boot }), { mode: 0o600 })
  return opened
}
