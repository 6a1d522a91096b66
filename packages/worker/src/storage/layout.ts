// Where the store keeps what. Names of blobs and trees are digests and names of backends are BackendName, so that no
// path here can lead anywhere else.
import { join } from 'node:path'
import type { BackendName, Digest } from '@muster/protocol'

/** How long what an install has fetched waits for its next try: longer than any pause between two. */
export const partialKeptMs = 7 * 24 * 3600_000

export interface Layout {
  readonly root: string
  readonly incoming: string
  readonly pulls: string
  readonly blobs: string
  readonly trees: string
  readonly backends: string
  /** Whatever is half done. Nothing in it survives a start. */
  readonly staging: string
  incomingFile(digest: Digest): string
  pull(tree: Digest): string
  blob(digest: Digest): string
  tree(digest: Digest): string
  backend(name: BackendName): string
}

export function layoutOf(root: string): Layout {
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
    staging: join(root, 'staging'),
    pull: (tree) => join(pulls, hexOf(tree)),
    incomingFile: (digest) => join(incoming, hexOf(digest)),
    blob: (digest) => join(blobs, hexOf(digest)),
    tree: (digest) => join(trees, hexOf(digest)),
    backend: (name) => join(backends, name),
  }
}

function hexOf(digest: Digest): string {
  return digest.slice('sha256:'.length)
}
