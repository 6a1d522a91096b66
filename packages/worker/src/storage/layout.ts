// Paths of the backend store (design.md). Names of blobs and trees are digests and names of backends are BackendName, so
// that no path can leave the root.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectory } from '@muster/host'
import { Digest, type BackendName } from '@muster/protocol'

/** Downloads of an unfinished install are kept for this long: longer than any pause between two tries. */
export const partialKeptMs = 7 * 24 * 3600_000

export type Layout = ReturnType<typeof layoutOf>

export function layoutOf(root: string) {
  const incoming = join(root, 'incoming')
  const pulls = join(root, 'pulls')
  const blobs = join(root, 'blobs', 'sha256')
  const trees = join(root, 'trees', 'sha256')
  const backends = join(root, 'backends')
  return {
    root,
    incoming,
    pulls,
    blobs,
    trees,
    backends,
    /** Unfinished work; emptied at every start. */
    staging: join(root, 'staging'),
    pull: (tree: Digest) => join(pulls, digestHex(tree)),
    incomingFile: (digest: Digest) => join(incoming, digestHex(digest)),
    blob: (digest: Digest) => join(blobs, digestHex(digest)),
    tree: (digest: Digest) => join(trees, digestHex(digest)),
    backend: (name: BackendName) => join(backends, name),
  }
}

/** Makes the directories of a store and empties `staging`. */
export async function prepareDirectories(directories: readonly string[], staging: string): Promise<void> {
  for (const directory of [...directories, staging]) await makeDirectory(directory, { mode: 0o700 })
  for (const name of await readdir(staging)) await rm(join(staging, name), { recursive: true, force: true })
}

export function digestHex(digest: Digest): string {
  return digest.slice('sha256:'.length)
}

/** The entries of a directory that are named after a digest. */
export async function digestsIn(directory: string): Promise<Digest[]> {
  return (await readdir(directory)).flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
}
