// Records about sources that announce no hash (https without sha256, Hugging Face, S3):
//   known/<hex>             content last fetched from a source, so that another revision of a model does not fetch it again
//   incoming/<name>.json    the content that the first bytes of an unfinished download belong to
import { readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { identifySelf, writeFileAtomic } from '@muster/host'
import { Digest, failureOf } from '@muster/protocol'
import { z } from 'zod'
import { fileSize, type FetchedBlob } from '../storage/blobs.ts'
import type { ModelLayout } from './layout.ts'
import type { FileOrigin, OpenOrigin } from './origins.ts'

const KnownSource = z.object({ validator: z.string(), digest: Digest, size: z.number() })

export type KnownSources = ReturnType<typeof createKnownSources>

export function createKnownSources(layout: ModelLayout) {
  return {
    /** Null when the content must be fetched. Calls `hold` before checking that the content exists. */
    async find(uri: string, origin: FileOrigin, hold: (digest: Digest) => void): Promise<FetchedBlob | null> {
      const known = await readRecord(layout.knownSource(uri), KnownSource)
      const [open] = origin.mirrors
      if (known === null || open === undefined) return null
      const { validator, digest, size } = known
      hold(digest)
      if ((await fileSize(layout.blob(digest))) !== size) return null
      try {
        // An unchanged source has nothing to send from `size` on; a changed one sends from its beginning.
        const { stream, offset } = await open({ offset: size, validator })
        stream.destroy()
        return offset === size ? { digest, size } : null
      } catch (error) {
        // An unreachable source counts as unchanged.
        if (failureOf(error).code === 'unavailable') return { digest, size }
        throw error
      }
    },
    async record(uri: string, validator: string | null, fetched: FetchedBlob): Promise<void> {
      if (validator !== null) await writeFileAtomic(layout.knownSource(uri), JSON.stringify({ validator, ...fetched }), { mode: 0o600 })
    },
  }
}

/** Valid until the next boot: bytes that never reached the disk would go unnoticed without a hash. */
const PartialRecord = z.object({ validator: z.string(), boot: z.string() })

const partialRecordPath = (incoming: string): string => `${incoming}.json`

/** Opens the source where the incoming file ends if it still has the same content, else at its beginning. */
export async function resumeDownload(open: OpenOrigin, incoming: string, have: number): ReturnType<OpenOrigin> {
  const path = partialRecordPath(incoming)
  const { boot } = identifySelf()
  const record = await readRecord(path, PartialRecord)
  const validator = record?.boot === boot ? record.validator : null
  const opened = await open({ offset: validator === null ? 0 : have, validator })
  if (validator !== null && opened.offset > 0) return opened
  // The old bytes go before the new record is written, so that a record never describes other bytes.
  if ((await fileSize(incoming)) !== null) await truncate(incoming, 0)
  if (opened.validator === null) await rm(path, { force: true })
  else await writeFile(path, JSON.stringify({ validator: opened.validator, boot }), { mode: 0o600 })
  return opened
}

/** Removes the record of a finished download and returns its validator. */
export async function finishPartial(incoming: string): Promise<string | null> {
  const path = partialRecordPath(incoming)
  const record = await readRecord(path, PartialRecord)
  await rm(path, { force: true })
  return record?.validator ?? null
}

/** Null when the file is missing, unreadable or of another form. */
export async function readRecord<T>(path: string, schema: z.ZodType<T>): Promise<T | null> {
  const json: unknown = await readFile(path, 'utf8')
    .then(JSON.parse)
    .catch(() => null)
  return schema.safeParse(json).data ?? null
}
