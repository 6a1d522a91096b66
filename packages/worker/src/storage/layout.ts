// Where the store keeps what. Names of blobs and trees are digests and names of backends are BackendName, so that no
// path here can lead anywhere else.
import { join } from 'node:path'
import type { BackendName, Digest } from '@muster/protocol'

export interface Layout {
  readonly root: string
  readonly incoming: string
  readonly blobs: string
  readonly trees: string
  readonly backends: string
  /** Whatever is half done. Nothing in it survives a start. */
  readonly staging: string
  incomingFile(digest: Digest): string
  blob(digest: Digest): string
  tree(digest: Digest): string
  backend(name: BackendName): string
}

export function layoutOf(root: string): Layout {
  const incoming = join(root, 'incoming')
  const blobs = join(root, 'blobs', 'sha256')
  const trees = join(root, 'trees', 'sha256')
  const backends = join(root, 'backends')
  return {
    root,
    incoming,
    blobs,
    trees,
    backends,
    staging: join(root, 'staging'),
    incomingFile: (digest) => join(incoming, hexOf(digest)),
    blob: (digest) => join(blobs, hexOf(digest)),
    tree: (digest) => join(trees, hexOf(digest)),
    backend: (name) => join(backends, name),
  }
}

function hexOf(digest: Digest): string {
  return digest.slice('sha256:'.length)
}
