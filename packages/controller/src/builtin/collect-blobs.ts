// Which of the packed blobs are still served: those of this version, and those of the version that ran in this data
// directory before, which a node may be half way through. `versions.json` says which they are.
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
  // First what is kept, then what goes: after a crash in between it is found again.
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
  const known = await readVersions(path)
  // Nobody knows which of them was the last: all are kept this once.
  if (known === null) return new Set(found.filter((digest) => !current.has(digest)))
  const isSame = known.current.length === current.size && known.current.every((digest) => current.has(digest))
  return new Set(isSame ? known.previous : known.current)
}

/** Null when there is none, or none that can be read. */
async function readVersions(path: string): Promise<z.infer<typeof Versions> | null> {
  try {
    return Versions.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}
