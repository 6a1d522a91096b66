// Paths of the files of models. Names of models, revisions and sources are hashed before they become part of a path, so
// that no path can leave the root.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Digest, ModelName } from '@muster/protocol'
import { digestHex } from '../storage/layout.ts'

export interface ModelLayout {
  readonly root: string
  readonly incoming: string
  readonly blobs: string
  readonly byModel: string
  /** Marks of uploaded content, which is kept even while no model names it. */
  readonly uploads: string
  readonly verifiedFiles: string
  readonly knownSources: string
  /** Unfinished work; emptied at every start. */
  readonly staging: string
  incomingFile(digest: Digest): string
  /** A download whose digest is not known yet, by its source. */
  incomingOf(source: string): string
  blob(digest: Digest): string
  upload(digest: Digest): string
  /** Marks of content uploaded for a model; removed with the model. */
  uploadsFor(model: ModelName): string
  /** The recorded hash of a file on a shared volume. */
  verifiedFile(path: string): string
  /** The recorded content of a source. */
  knownSource(source: string): string
  model(model: ModelName): string
  folder(model: ModelName, revision: string): string
}

export function modelLayoutOf(root: string): ModelLayout {
  const incoming = join(root, 'incoming')
  const blobs = join(root, 'blobs', 'sha256')
  const byModel = join(root, 'by-model')
  const uploads = join(root, 'uploads')
  const verifiedFiles = join(root, 'verified')
  const knownSources = join(root, 'known')
  const modelFolder = (model: ModelName): string => join(byModel, hashOf(model))
  return {
    root,
    incoming,
    blobs,
    byModel,
    uploads,
    verifiedFiles,
    knownSources,
    staging: join(root, 'staging'),
    incomingFile: (digest) => join(incoming, digestHex(digest)),
    incomingOf: (source) => join(incoming, `from-${hashOf(source)}`),
    blob: (digest) => join(blobs, digestHex(digest)),
    upload: (digest) => join(uploads, digestHex(digest)),
    uploadsFor: (model) => join(uploads, `${modelUploadsPrefix}${hashOf(model)}`),
    verifiedFile: (path) => join(verifiedFiles, hashOf(path)),
    knownSource: (source) => join(knownSources, hashOf(source)),
    model: modelFolder,
    folder: (model, revision) => join(modelFolder(model), hashOf(revision)),
  }
}

/** The prefix of directories in `uploads`. */
export const modelUploadsPrefix = 'of-'

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')
