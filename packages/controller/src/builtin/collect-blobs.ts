// Removes old blobs. The blobs of this version and of the previous one in this data directory are kept, because a node may be
// downloading them; `versions.json` lists both.
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writeFileAtomic } from '@muster/host'
import { Digest } from '@muster/protocol'
import { z } from 'zod'

const Versions = z.object({ current: z.array(Digest), previous: z.array(Digest) })

export async function collectBlobs(directory: string, current: ReadonlySet<Digest>): Promise<void> {
  const blobs = join(directory, 'blobs', 'sha256')
  const found = (await readdir(blobs)).flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
  const previous = await previousOf(join(directory, 'versions.json'), { current, found })
  // The list is written before the removal, so that a crash in between loses nothing.
  await writeFileAtomic(join(directory, 'versions.json'), JSON.stringify({ current: [...current], previous: [...previous] }), {
    mode: 0o600,
  })
  for (const digest of found) {
    if (!current.has(digest) && !previous.has(digest)) await rm(join(blobs, digest.slice('sha256:'.length)), { force: true })
  }
}

async function previousOf(
  path: string,
  { current, found }: { current: ReadonlySet<Digest>; found: readonly Digest[] },
): Promise<ReadonlySet<Digest>> {
  const versions = await readVersions(path)
  // The previous version is unknown: keep all blobs this time.
  if (versions === null) return new Set(found.filter((digest) => !current.has(digest)))
  const isSame = versions.current.length === current.size && versions.current.every((digest) => current.has(digest))
  return new Set(isSame ? versions.previous : versions.current)
}

/** Null when the file is missing or damaged. */
async function readVersions(path: string): Promise<z.infer<typeof Versions> | null> {
  try {
    return Versions.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}
