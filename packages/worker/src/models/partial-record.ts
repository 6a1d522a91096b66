// What the beginning of a file belongs to that has no digest yet: its rest is asked for only from a source that still has
// the same. Not trusted after the machine was off: bytes that never reached the disk would be noticed by nobody.
import { readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { identifySelf } from '@muster/host'
import { z } from 'zod'
import { fileSize } from '../storage/fetch-blob.ts'
import type { OpenOrigin } from './file-origin.ts'

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
