// Where the files of models are kept. Names of models, revisions and sources are hashed before they become part of a path,
// so that none of them can lead anywhere else.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Digest, ModelName } from '@muster/protocol'

export interface ModelLayout {
  readonly root: string
  readonly incoming: string
  readonly blobs: string
  readonly byModel: string
  /** Which content was uploaded, and when; for as long as it need not be named by a model. */
  readonly uploads: string
  readonly verifiedFiles: string
  readonly knownSources: string
  /** Whatever is half done. Nothing in it survives a start. */
  readonly staging: string
  incomingFile(digest: Digest): string
  /** Of what has no digest before it is there, by where it comes from. */
  incomingOf(source: string): string
  blob(digest: Digest): string
  upload(digest: Digest): string
  /** What was uploaded for a model, for as long as there is that model. */
  uploadsFor(model: ModelName): string
  /** What a file elsewhere was when it was last read. */
  verifiedFile(path: string): string
  /** What came from there last. */
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

/** How the directories among the uploads begin. */
export const modelUploadsPrefix = 'of-'

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

const digestHex = (digest: Digest): string => digest.slice('sha256:'.length)
